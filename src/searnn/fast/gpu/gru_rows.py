"""Whole greedy roll-outs of a GRU decoder in one launch: a program takes a block of rows from their cells to their end.

Rows are independent, so programs never wait for each other, and a block ends with its last row. Its hidden state lies
twice in a scratch that stays in the cache: one copy is read while the other is written. The products with it run in
tiles of the packed weights (`gru_pack`); the gates of the consumed token are gathered from a table; the arg-max is
taken in registers. Among equal scores the first token wins, as with `torch.max`.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Float, Int
from torch import Tensor

from searnn.fast.gpu.gru_attend import LARGEST, PLACES, Attended, attend, inverse, source_end
from searnn.fast.gpu.gru_pack import SCALE, TYPES, Packed
from searnn.fast.gpu.gru_tiles import Sizes, Tiles
from searnn.fast.host import interpreted
from searnn.types import Rows, Vocabulary


@dataclass(frozen=True)
class Seen:
    """What an aligned decoder reads: the gates of every source position, and each row's own position."""

    both: Float[Tensor, "B S G"]
    new: Float[Tensor, "B S D"]
    position: Int[Tensor, "B R"]


@triton.jit
def _sigmoid(x):
    """1 / (1 + exp(-x)), to a unit in the last place."""
    power = 1.0 + tl.exp(tl.minimum(-x, 80.0))
    guess = inverse(power)
    return guess * (2.0 - power * guess)  # made exact: what enters the state must not drift


@triton.jit
def _tanh(x):
    """tanh by the sigmoid, as the plain code does on a CPU."""
    return 2.0 * _sigmoid(2.0 * x) - 1.0


@triton.jit
def _read(at, lower: tl.constexpr, halves: tl.constexpr, exact: tl.constexpr):
    """A tile of an operand: both halves, or the same twice."""
    upper = tl.load(at)
    rest = upper
    if halves:
        rest = tl.load(at + lower)
    if exact:  # Triton's interpreter cannot multiply bfloat16
        upper = upper.to(tl.float32)
        rest = rest.to(tl.float32)
    return upper, rest


@triton.jit
def _add_product(total, state, rest, at, lower: tl.constexpr, halves: tl.constexpr, precision: tl.constexpr,
                 exact: tl.constexpr):  # fmt: skip
    """`total` and the product of a tile of the state with a tile of the weights; small terms are added first."""
    weight, low = _read(at, lower, halves, exact)
    if halves:
        total = tl.dot(state, low, total)
        total = tl.dot(rest, weight, total)
    return tl.dot(state, weight, total, input_precision=precision)


@triton.jit
def _write(at, hidden, padded: tl.constexpr, pairs: tl.constexpr):
    """The hidden state: as it is, or as the sum of two numbers of the operands' type."""
    upper = hidden.to(at.dtype.element_ty)
    tl.store(at, upper)
    if pairs:
        tl.store(at + padded, (hidden - upper.to(tl.float32)).to(at.dtype.element_ty))


@triton.jit
def _recall(at, padded: tl.constexpr, pairs: tl.constexpr):
    """What `_write` wrote."""
    hidden = tl.load(at).to(tl.float32)
    if pairs:
        hidden += tl.load(at + padded).to(tl.float32)
    return hidden


@triton.jit(do_not_specialize=["count", "share", "cells_most", "sources", "pad", "bos", "eos"])
def _finish_rows(outputs, cells, limits, hidden, table_both, table_new, weights, biases, seen_both, seen_new,
                 positions, keys, energies, values, mask, scratch, count, share, cells_most, sources, attention,
                 vocabulary, pad, bos, eos, width: tl.constexpr, padded: tl.constexpr, attended: tl.constexpr,
                 tokens: tl.constexpr, aligned: tl.constexpr, flat: tl.constexpr, pairs: tl.constexpr,
                 halves: tl.constexpr, precision: tl.constexpr, exact: tl.constexpr, scale: tl.constexpr,
                 rows: tl.constexpr, units: tl.constexpr, depth: tl.constexpr, places: tl.constexpr,
                 most: tl.constexpr):  # fmt: skip
    """Rows of one example, or with `flat` of several, written to their ends; `outputs` holds them as they are given."""
    column, block = tl.program_id(0), tl.program_id(1)
    inner = block * rows + tl.arange(0, rows)
    real = inner < count
    row = tl.where(real, column * count + inner, 0)
    stride: tl.constexpr = 2 * padded if pairs else padded
    lower: tl.constexpr = (3 * padded + attended + tokens) * padded
    summed: tl.constexpr = (width + depth - 1) // depth * depth
    scratch += (block * tl.num_programs(0) + column).to(tl.int64) * (2 * rows * stride)
    slot = (tl.arange(0, rows) * stride)[:, None]
    example = column
    if flat:
        example = row // share
    cell = tl.load(cells + row, mask=real, other=0).to(tl.int32)
    limit = tl.load(limits + row, mask=real, other=0).to(tl.int32)
    cursor = row * cells_most + cell + 1
    token = tl.load(outputs + tl.maximum(cursor - 1, 0), mask=real & (cell >= 0), other=0).to(tl.int32)
    token = tl.where(cell < 0, bos, token)
    left = tl.where(real & (token != eos), tl.minimum(limit, cells_most) - cell - 1, 0)
    seat = cell + 1
    if aligned:
        seat = (row // share) * sources + tl.load(positions + row, mask=real, other=0).to(tl.int32)
    unit = tl.arange(0, units)
    deep = tl.arange(0, depth)
    alive = tl.max(left, 0)
    end = 0
    if alive > 0:
        for first in range(0, padded, units):
            at = (first + unit)[None, :]
            wanted = (left > 0)[:, None] & (at < width)
            given = tl.load(hidden + (row[:, None] * width + at), mask=wanted, other=0.0)
            _write(scratch + (slot + at), given, padded, pairs)
        if attended > 0:
            end = source_end(mask, example, sources, flat, places)
    tl.debug_barrier()
    here = 0
    while alive > 0:
        running = left > 0
        old, new = scratch + here * (rows * stride), scratch + (1 - here) * (rows * stride)
        for first in range(0, padded, units):
            reset = tl.zeros((rows, units), tl.float32)
            update = tl.zeros((rows, units), tl.float32)
            fresh = tl.zeros((rows, units), tl.float32)
            for start in range(0, summed, depth):
                part, rest = _read(old + start + (slot + deep[None, :]), padded, halves, exact)
                tile = weights + (first * padded + start) + (unit[None, :] * padded + deep[:, None])
                reset = _add_product(reset, part, rest, tile, lower, halves, precision, exact)
                tile += padded * padded
                update = _add_product(update, part, rest, tile, lower, halves, precision, exact)
                tile += padded * padded
                fresh = _add_product(fresh, part, rest, tile, lower, halves, precision, exact)
            at = (first + unit)[None, :]
            wanted = running[:, None] & (at < width)
            enter = token[:, None] * width
            reset = reset * scale + tl.load(table_both + (2 * enter + at), mask=wanted, other=0.0)
            update = update * scale + tl.load(table_both + (2 * enter + (width + at)), mask=wanted, other=0.0)
            fresh = fresh * scale + tl.load(biases + 2 * padded + first + unit)[None, :]
            entered = tl.load(table_new + (enter + at), mask=wanted, other=0.0)
            if aligned:
                inside = wanted & (seat < (row // share) * sources + sources)[:, None]
                see = seat[:, None] * width
                reset += tl.load(seen_both + (2 * see + at), mask=inside, other=0.0)
                update += tl.load(seen_both + (2 * see + (width + at)), mask=inside, other=0.0)
                entered += tl.load(seen_new + (see + at), mask=inside, other=0.0)
            fresh = _tanh(entered + _sigmoid(reset) * fresh)
            before = _recall(old + first + (slot + unit[None, :]), padded, pairs)
            _write(new + first + (slot + unit[None, :]), fresh + _sigmoid(update) * (before - fresh), padded, pairs)
        tl.debug_barrier()
        word = tl.arange(0, tokens)
        scores = tl.zeros((rows, tokens), tl.float32)
        if attended > 0:
            asked = tl.arange(0, attended)
            query = tl.zeros((rows, attended), tl.float32)
        for start in range(0, summed, depth):
            part, rest = _read(new + start + (slot + deep[None, :]), padded, halves, exact)
            tile = weights + (3 * padded * padded + start)
            if attended > 0:
                ask = tile + (asked[None, :] * padded + deep[:, None])
                query = _add_product(query, part, rest, ask, lower, halves, precision, exact)
            tile = tile + attended * padded + (word[None, :] * padded + deep[:, None])
            scores = _add_product(scores, part, rest, tile, lower, halves, precision, exact)
        scores = scores * scale + tl.load(biases + 3 * padded + attended + word)[None, :]
        if attended > 0:
            query = query * scale + tl.load(biases + 3 * padded + asked)[None, :]
            scores += attend(query, keys, energies, values, mask, example, end, sources, attention, vocabulary,
                             flat, most, tokens)  # fmt: skip
        never = (word >= vocabulary) | (word == pad) | (word == bos)
        scores = tl.where(never[None, :], -float("inf"), scores)
        token = tl.minimum(tl.argmax(scores, 1), vocabulary - 1)  # never outside the table, even of broken scores
        tl.store(outputs + cursor, token.to(outputs.dtype.element_ty), mask=running)
        left = tl.where(running & (token != eos), left - 1, 0)
        cursor += 1
        seat += 1
        here = 1 - here
        alive = tl.max(left, 0)


def finish_rows(
    packed: Packed,
    sizes: Sizes,
    tiles: Tiles,
    table: tuple[Float[Tensor, "V G"], Float[Tensor, "V D"]],
    hidden: Float[Tensor, "B R D"],
    rows: Rows,
    vocab: Vocabulary,
    attended: Attended | None,
    seen: Seen | None,
) -> Int[Tensor, "B R T"]:
    """Write every row to its end, each token the best-scored; the weights are packed for these sizes and tiles."""
    examples, share, length = rows.outputs.shape
    flat = share < tiles.rows  # few rows of each example, as in a roll-in: a program takes those of several
    columns, count = (1, examples * share) if flat else (examples, share)
    blocks = triton.cdiv(count, tiles.rows)
    halves = tiles.product == "halves"
    kind = TYPES[tiles.product]
    pairs = kind != torch.float32  # two such numbers hold the state, of which bf16 products take the upper one
    parts = 2 if pairs else 1
    scratch = torch.empty(columns * blocks, 2, tiles.rows, parts, sizes.padded, dtype=kind, device=hidden.device)
    outputs = rows.outputs.clone(memory_format=torch.contiguous_format)
    none = hidden.contiguous()
    keys, energies, values, mask = (none, none, none, none)
    if attended is not None:
        keys, energies, values = attended.keys.contiguous(), attended.energies, attended.values.contiguous()
        mask = attended.mask.contiguous().view(torch.uint8)
    both, new, position = (none, none, none)
    if seen is not None:
        both, new, position = seen.both.contiguous(), seen.new.contiguous(), seen.position.contiguous()
    sources = keys.shape[1] if attended is not None else both.shape[1]
    with torch.cuda.device_of(hidden):
        _finish_rows[(columns, blocks)](
            outputs, rows.cells.contiguous(), rows.limits.contiguous(), none, table[0].contiguous(),
            table[1].contiguous(), packed.weights, packed.biases, both, new, position, keys, energies,
            values, mask, scratch, count, share, length, sources, keys.shape[2], vocab.size, vocab.pad, vocab.bos,
            -1 if vocab.eos is None else vocab.eos, width=sizes.width, padded=sizes.padded, attended=sizes.attended,
            tokens=sizes.tokens, aligned=seen is not None, flat=flat, pairs=pairs, halves=halves,
            precision="ieee" if pairs else tiles.product, exact=pairs and not halves and interpreted(),
            scale=1 / SCALE if halves else 1.0,
            rows=tiles.rows, units=tiles.units, depth=tiles.depth, places=PLACES, most=LARGEST,
            num_warps=tiles.warps, num_stages=tiles.stages, maxnreg=tiles.registers,
        )  # fmt: skip
    return outputs
