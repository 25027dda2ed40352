"""Turning a model into outputs: the loop over time; greedy, beam, sampled and minimum-Bayes-risk decoding on it."""

from searnn.decoding.beam import beam_search
from searnn.decoding.decode import decode, decode_beam, decode_from, roll_from_start, sample
from searnn.decoding.loop import Choose, Greedy, Standing, at_rows, sampling, unroll
from searnn.decoding.risk import decode_mbr, least_cost, least_risk, pairwise_costs

__all__ = [
    "Choose",
    "Greedy",
    "Standing",
    "at_rows",
    "beam_search",
    "decode",
    "decode_beam",
    "decode_from",
    "decode_mbr",
    "least_cost",
    "least_risk",
    "pairwise_costs",
    "roll_from_start",
    "sample",
    "sampling",
    "unroll",
]
