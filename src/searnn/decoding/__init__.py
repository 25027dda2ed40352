"""Turning a model into outputs: the loop over time, and greedy, beam and sampled decoding on top of it."""

from searnn.decoding.beam import beam_search
from searnn.decoding.decode import decode, decode_beam, decode_from, roll_from_start, sample
from searnn.decoding.loop import Choose, Greedy, Standing, at_rows, sampling, unroll

__all__ = [
    "Choose",
    "Greedy",
    "Standing",
    "at_rows",
    "beam_search",
    "decode",
    "decode_beam",
    "decode_from",
    "roll_from_start",
    "sample",
    "sampling",
    "unroll",
]
