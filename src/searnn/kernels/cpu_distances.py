"""Hamming and edit distance of many outputs on a CPU in one compiled pass; outputs that begin alike share their start.

The edit distance is bit-parallel (Myers 1999, as Hyyrö 2003 writes it): bit j of `up` and `down` says whether the
distance to the first j + 1 tokens of the truth is one more or one less than that to the first j.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from searnn.kernels.cpu_rows import ORDERED, compiled
from searnn.types import Vocabulary


@compiled("void(int64[:, :, ::1], int64[:, ::1], int64, int64, int64[::1], int64[::1])", ORDERED)
def _find_ends(outputs, targets, pad, eos, ends, lengths):
    """How many tokens stand before the end of each output and truth."""
    for example in range(len(targets)):
        length = 0
        while length < targets.shape[1] and targets[example, length] not in (pad, eos):
            length += 1
        lengths[example] = length
        for row in range(outputs.shape[1]):
            end = 0
            while end < outputs.shape[2] and outputs[example, row, end] not in (pad, eos):
                end += 1
            ends[example * outputs.shape[1] + row] = end


@compiled("void(int64[:, :, ::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1])", ORDERED)
def _count_differences(outputs, targets, ends, lengths, counts):
    """Positions that differ, or that only one of output and truth has."""
    for example in range(len(targets)):
        for row in range(outputs.shape[1]):
            end = ends[example * outputs.shape[1] + row]
            both = min(end, lengths[example])
            count = max(end, lengths[example]) - both
            for position in range(both):
                count += outputs[example, row, position] != targets[example, position]
            counts[example, row] = count


@compiled("void(int64[:, :, ::1], int64[:, ::1], int64[::1], int64[::1], int64, int64[:, ::1])", ORDERED)
def _count_edits(outputs, targets, ends, lengths, tokens, counts):
    """The edit distance; `tokens` is how many there are, and a truth has at most 62 of them."""
    places = np.zeros(tokens, np.int64)  # where the truth has a token
    states = np.empty((outputs.shape[2] + 1, 3), np.int64)  # after each token of the output before
    for example in range(len(targets)):
        length, before = lengths[example], 0
        for position in range(length):
            token = targets[example, position]
            if 0 <= token < tokens:
                places[token] |= 1 << position
        states[0, 0], states[0, 1], states[0, 2] = -1, 0, length
        for row in range(outputs.shape[1]):
            output, end = outputs[example, row], ends[example * outputs.shape[1] + row]
            same = 0
            while same < min(before, end) and output[same] == outputs[example, row - 1, same]:
                same += 1
            up, down, count = states[same]
            for position in range(same, end):
                token = output[position]
                match = places[token] if 0 <= token < tokens else 0
                level = (((match & up) + up) ^ up) | match | down
                rises = ((down | ~(level | up)) << 1) | 1
                falls = (up & level) << 1
                count += ((rises >> length) & 1) - ((falls >> length) & 1)
                up, down = falls | ~(level | rises), rises & level
                states[position + 1, 0], states[position + 1, 1], states[position + 1, 2] = up, down, count
            before = end
            counts[example, row] = count
        for position in range(length):
            token = targets[example, position]
            if 0 <= token < tokens:
                places[token] = 0


def count_errors(
    outputs: Int[Tensor, "B *N T"],
    targets: Int[Tensor, "B L"],
    vocab: Vocabulary,
    edits: bool,
    normalised: bool = False,
    dtype: torch.dtype = torch.int64,
) -> Shaped[Tensor, "B *N"]:
    """The edit distance (`edits`) or Hamming distance of each output, divided by the true length if `normalised`."""
    rows = outputs.contiguous().view(len(outputs), -1, outputs.shape[-1]).numpy()
    truth = targets.contiguous().numpy()
    ends, lengths = np.empty(rows.shape[0] * rows.shape[1], np.int64), np.empty(len(truth), np.int64)
    _find_ends(rows, truth, vocab.pad, -1 if vocab.eos is None else vocab.eos, ends, lengths)
    counts = torch.empty(rows.shape[:2], dtype=torch.int64)
    if edits:
        _count_edits(rows, truth, ends, lengths, vocab.embeddings, counts.numpy())
    else:
        _count_differences(rows, truth, ends, lengths, counts.numpy())
    errors = counts.to(dtype)
    if normalised:
        errors = errors / torch.from_numpy(lengths).clamp(min=1).unsqueeze(1)
    return errors.view(outputs.shape[:-1])
