"""Costs: the test error of finished outputs, and its closed form where an oracle's completion need not be built."""

from searnn.costs.callable import CallableCost, from_callable
from searnn.costs.chunk_f1 import ChunkF1
from searnn.costs.edit_distance import EditDistance
from searnn.costs.hamming import ExactMatch, Hamming
from searnn.costs.ngrams import Gleu, SentenceBleu

__all__ = [
    "CallableCost",
    "ChunkF1",
    "EditDistance",
    "ExactMatch",
    "Gleu",
    "Hamming",
    "SentenceBleu",
    "from_callable",
]
