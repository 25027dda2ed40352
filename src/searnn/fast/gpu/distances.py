"""Hamming and edit distance of outputs, and of branches that are completed by copying the truth: one lane each.

The edit distance is bit-parallel (Myers 1999, as Hyyrö 2003 writes it): bit j of `up` and `down` says whether the
distance to the first j + 1 tokens of the truth is one more or one less than that to the first j.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Int, Shaped
from torch import Tensor

from searnn.fast.gpu.tokens import (
    find_lanes,
    launch_branches,
    launch_outputs,
    read_branches,
    read_truth,
    rows_here,
    shape_settings,
)
from searnn.types import Batch, Branches, Vocabulary


@triton.jit
def advance(up, down, match, length):
    """One more token, which the truth has at `match`: the new `up` and `down`, and how the distance changes."""
    same = match | down
    level = (((same & up) + up) ^ up) | same
    rises = ((down | ~(up | level)) << 1) | 1
    falls = (up & level) << 1
    change = ((rises >> length) & 1) - ((falls >> length) & 1)
    return falls | ~(level | rises), rises & level, change.to(tl.int32)


@triton.jit
def store_errors(out, errors, length, real, normalised: tl.constexpr):
    """The errors, or their share of the true length: rounded as if divided in the precision that is stored."""
    if normalised:
        share = errors.to(tl.float64) / tl.maximum(length, 1).to(tl.float64)
        tl.store(out, share.to(out.dtype.element_ty), mask=real)
    else:
        tl.store(out, errors.to(out.dtype.element_ty), mask=real)


@triton.jit
def _count(token, targets, length, width, position, alive, up, down, edits: tl.constexpr, word: tl.constexpr,
           most: tl.constexpr):  # fmt: skip
    """The errors that one more token adds, and the new columns of the edit distance."""
    if edits:
        up, down, change = advance(up, down, find_lanes(token, targets, width, word, most), length.to(word))
        errors = tl.where(alive, change, 0)
    else:
        true = tl.load(targets + position).to(tl.int32)
        within = position < length
        errors = ((alive | within) & ((token != true) | ~alive | (position >= length))).to(tl.int32)
    return errors, up, down


@triton.jit(do_not_specialize=["rows", "cells", "width", "pad", "eos"])
def _of_outputs(outputs, targets, out, rows, cells, width, pad, eos, edits: tl.constexpr, normalised: tl.constexpr,
                lanes: tl.constexpr, word: tl.constexpr, most: tl.constexpr, span: tl.constexpr):  # fmt: skip
    """The errors of finished outputs."""
    example, _, place, real = rows_here(rows, lanes)
    targets += example * width
    _, length, _ = read_truth(targets, width, pad, eos, word, span)
    up = tl.full((lanes,), -1, word)
    down = tl.zeros((lanes,), word)
    errors = tl.zeros((lanes,), tl.int32)
    if edits:
        errors += length
    alive = real
    for position in range(cells):
        token = tl.load(outputs + place * cells + position, mask=alive, other=pad).to(tl.int32)
        alive = alive & (token != pad) & (token != eos)
        more, up, down = _count(token, targets, length, width, position, alive, up, down, edits, word, most)
        errors += more
    store_errors(out + place, errors, length, real, normalised)


@triton.jit(do_not_specialize=["branches", "candidates", "width", "pad", "eos"])
def _of_copies(prefix, cells, tokens, limits, targets, out, branches, candidates, width, pad, eos,
               edits: tl.constexpr, normalised: tl.constexpr, lanes: tl.constexpr, word: tl.constexpr,
               most: tl.constexpr, span: tl.constexpr):  # fmt: skip
    """The errors of branches that go on with the truth."""
    example, place, real, asked, chosen, limit = read_branches(cells, tokens, limits, branches, candidates, lanes)
    prefix += example * width
    targets += example * width
    _, length, _ = read_truth(targets, width, pad, eos, word, span)
    cell = tl.minimum(tl.maximum(asked, 0), width - 1)  # those outside are masked
    up = tl.full((lanes,), -1, word)
    down = tl.zeros((lanes,), word)
    errors = tl.zeros((lanes,), tl.int32)
    if edits:
        errors += length
    alive = real
    for position in range(width):
        token = tl.where(position == cell, chosen, tl.load(targets + position).to(tl.int32))
        token = tl.where(position < cell, tl.load(prefix + position).to(tl.int32), token)
        # Nothing is cut before the cell; the token stands if its cell has room, the truth as far as there is any.
        cut = (position >= cell) & (tl.where(position == cell, asked, position) >= limit)
        alive = alive & ~cut & (token != pad) & (token != eos)
        more, up, down = _count(token, targets, length, width, position, alive, up, down, edits, word, most)
        errors += more
    store_errors(out + place, errors, length, real, normalised)


def count_errors(
    outputs: Int[Tensor, "B *N T"],
    targets: Int[Tensor, "B L"],
    vocab: Vocabulary,
    edits: bool,
    normalised: bool = False,
    dtype: torch.dtype = torch.int64,
) -> Shaped[Tensor, "B *N"]:
    """The edit distance (`edits`) or Hamming distance of each output, divided by the true length if `normalised`."""
    out = torch.empty(outputs.shape[:-1], dtype=dtype, device=outputs.device)
    return launch_outputs(_of_outputs, outputs, targets, out, vocab, edits=edits, normalised=normalised)


def copy_errors(
    branches: Branches, batch: Batch, edits: bool, normalised: bool, dtype: torch.dtype
) -> Shaped[Tensor, "B C K"]:
    """The same of every branch, completed by copying the truth after it; what is completed is not written."""
    out = torch.empty(branches.tokens.shape, dtype=dtype, device=branches.tokens.device)
    settings = {"edits": edits, "normalised": normalised, **shape_settings(batch.targets.shape[1])}
    return launch_branches(_of_copies, branches, batch, out, **settings)
