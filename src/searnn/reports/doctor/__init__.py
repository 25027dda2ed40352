"""The doctor: what is off in a run, in words, each with its reason and its remedy."""

from searnn.reports.doctor.examining import compare, examine
from searnn.reports.doctor.findings import Finding

__all__ = ["Finding", "compare", "examine"]
