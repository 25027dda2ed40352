"""Policies: who writes the prefix, and who finishes the branches."""

from searnn.policies.focused import Focused
from searnn.policies.learned import Learned
from searnn.policies.mixed import Mixed
from searnn.policies.reference import Reference
from searnn.policies.sampled import Sampled

__all__ = ["Focused", "Learned", "Mixed", "Reference", "Sampled"]
