"""What the kernels on token sequences share: a lane is an output, a bit of a word is a position of the truth.

Tokens are compared as 32-bit integers. Where there is no EOS the kernels get PAD in its place: both end an output.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from torch import Tensor

from searnn.types import Batch, Branches, Vocabulary

LANES = 32  # outputs of a program: one warp, so that an example with few outputs leaves few lanes idle


@triton.jit
def read_truth(targets, width, pad, eos, word: tl.constexpr, span: tl.constexpr):
    """One truth with PAD past its width, its length, and the bit of each position before its end.

    `span` is a power of two from `width` on.
    """
    positions = tl.arange(0, span)
    truth = tl.load(targets + positions, mask=positions < width, other=pad).to(tl.int32)
    length = tl.min(tl.where((truth == pad) | (truth == eos), positions, width), 0)
    bits = tl.full((span,), 1, word) << positions.to(word)
    return truth, length, tl.where(positions < length, bits, tl.zeros_like(bits))


@triton.jit
def find(token, truth, bits):
    """Where a truth has one token, among the positions that have a bit."""
    return tl.sum(tl.where(truth == token, bits, tl.zeros_like(bits)), 0)


@triton.jit
def find_each(tokens, truth, bits):
    """Where a truth has each of these tokens, all at once; in a loop over time `find_lanes` is faster."""
    bits = bits[None, :]
    return tl.sum(tl.where(truth[None, :] == tokens[:, None], bits, tl.zeros_like(bits)), 1)


@triton.jit
def find_lanes(tokens, targets, width, word: tl.constexpr, most: tl.constexpr):
    """Where a truth has the token of each lane, which looks through all its positions: no lane needs another.

    The bits from `width` on mean nothing. `most` is from `width` on.
    """
    bit = tl.full((), 1, word)
    places = (tokens * 0).to(word)
    for position in tl.static_range(most):
        true = tl.load(targets + position, mask=position < width, other=-1).to(tl.int32)
        places = places | tl.where(tokens == true, bit << position, tl.zeros_like(bit))
    return places


@triton.jit
def rows_here(rows, lanes: tl.constexpr):
    """The example of this program, which of its rows the lanes have, their places among all rows, which are real."""
    blocks = tl.cdiv(rows, lanes)
    example = tl.program_id(0) // blocks
    row = tl.program_id(0) % blocks * lanes + tl.arange(0, lanes)
    return example, row, example.to(tl.int64) * rows + row, row < rows


@triton.jit
def read_branches(cells, tokens, limits, branches, candidates, lanes: tl.constexpr):
    """The example of this program, the places of its branches, which are real, their cells, tokens and limit."""
    example, branch, place, real = rows_here(branches, lanes)
    cells += example * (branches // candidates)
    cell = tl.load(cells + branch // candidates, mask=real, other=0).to(tl.int32)
    token = tl.load(tokens + place, mask=real, other=0).to(tl.int32)
    return example, place, real, cell, token, tl.load(limits + example).to(tl.int32)


@triton.jit
def write_joined(
    outputs, prefix, targets, cell, token, start, limit, width, pad, eos, filler, real, ends: tl.constexpr
):
    """The prefix, the token and the truth from `start` on, ended as every output is; `outputs` points at its lanes.

    With `ends` an output ends by EOS, else PAD between the token and the limit is written as `filler`.
    """
    unended = real
    for position in range(width):
        source = start + position - cell - 1
        true = tl.load(targets + tl.minimum(tl.maximum(source, 0), width - 1), mask=real, other=0).to(tl.int32)
        past = source >= width
        if ends:
            past = past | (true == pad)
        value = tl.where(past, eos, true)  # PAD where there is no EOS
        value = tl.where(position == cell, token, value)
        value = tl.where(position < cell, tl.load(prefix + position).to(tl.int32), value)
        kept = tl.where(unended & (position < limit), value, pad)
        if ends:
            unended = unended & (value != eos)
        else:
            kept = tl.where((kept == pad) & (position > cell) & (position < limit), filler, kept)
        tl.store(outputs + position, kept.to(tl.int64), mask=real)


def shape_settings(width: int) -> dict[str, Any]:
    """The settings of a kernel for a truth of this width, few of them: each set is compiled once."""
    most = -(-width // 8) * 8
    return {"word": tl.int32 if width < 32 else tl.int64, "most": most, "span": triton.next_power_of_2(most)}


def end_tokens(vocab: Vocabulary) -> tuple[int, int]:
    """PAD, and EOS or PAD again."""
    return vocab.pad, vocab.pad if vocab.eos is None else vocab.eos


def launch(kernel: Any, programs: int, tensors: Sequence[Tensor], *more: Any, warps: int = 1, **settings: Any) -> None:
    """Run a kernel where its first tensor lies."""
    with torch.cuda.device_of(tensors[0]):
        kernel[(programs,)](*(tensor.contiguous() for tensor in tensors), *more, **settings, num_warps=warps)


def launch_outputs(
    kernel: Any, outputs: Tensor, targets: Tensor, out: Tensor, vocab: Vocabulary, *more: int, **settings: Any
) -> Tensor:
    """Fill `out` by a kernel on finished outputs."""
    rows, width = outputs[0, ..., 0].numel(), targets.shape[1]
    sizes = (rows, outputs.shape[-1], width, *end_tokens(vocab), *more)
    programs = len(outputs) * triton.cdiv(rows, LANES)
    launch(kernel, programs, (outputs, targets), out, *sizes, lanes=LANES, **shape_settings(width), **settings)
    return out


def launch_branches(kernel: Any, branches: Branches, batch: Batch, out: Tensor, *more: int, **settings: Any) -> Tensor:
    """Fill `out` by a kernel on branches."""
    tensors = (branches.prefix, branches.cells, branches.tokens, batch.lengths, batch.targets)
    examples, cells, candidates = branches.tokens.shape
    sizes = (cells * candidates, candidates, batch.targets.shape[1], *end_tokens(batch.vocabulary), *more)
    programs = examples * triton.cdiv(cells * candidates, LANES)
    launch(kernel, programs, tensors, out, *sizes, lanes=LANES, **settings)
    return out
