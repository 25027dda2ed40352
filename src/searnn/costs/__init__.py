"""Costs: the test error of finished outputs, and its closed form where an oracle's completion need not be built."""

from searnn.costs.callable import CallableCost, from_callable
from searnn.costs.edit_distance import EditDistance
from searnn.costs.exact_match import ExactMatch
from searnn.costs.hamming import Hamming

__all__ = ["CallableCost", "EditDistance", "ExactMatch", "Hamming", "from_callable"]
