"""Samplers: which cells are costed, and with which candidate tokens.

The true token is always a candidate, and the first one where a sampler takes `k` tokens: `k` counts it. PAD and BOS
never are; a slot that nothing is left for repeats the true token, and there are no more slots than could be filled.
"""

from searnn.samplers.cells import AllCells, UncertainCells, UniformCells
from searnn.samplers.drawn import BiasedTokens, PolicyTokens, UniformTokens
from searnn.samplers.fixed import AllTokens, EndToken, NeighbourTokens
from searnn.samplers.ranked import TargetedTokens, TopTokens
from searnn.samplers.union import UnionTokens, union

__all__ = [
    "AllCells",
    "AllTokens",
    "BiasedTokens",
    "EndToken",
    "NeighbourTokens",
    "PolicyTokens",
    "TargetedTokens",
    "TopTokens",
    "UncertainCells",
    "UniformCells",
    "UniformTokens",
    "UnionTokens",
    "union",
]
