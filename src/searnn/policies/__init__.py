"""Policies: who writes the prefix, and who finishes the branches."""

from searnn.policies.earlier import Earlier
from searnn.policies.focused import Focused
from searnn.policies.interpolated import Interpolated
from searnn.policies.learned import Learned
from searnn.policies.mixed import Mixed
from searnn.policies.reference import Reference
from searnn.policies.sampled import Sampled

__all__ = ["Earlier", "Focused", "Interpolated", "Learned", "Mixed", "Reference", "Sampled"]
