"""Additive attention of the alive rows and what follows it, in one kernel that never writes a vector per source word.

tanh(q + k) is 1 - 2 / (1 + e^2q e^2k): the exponentials are taken once per row and once per key, and what is left for
every pair of them is one division. The ones add the same to all energies, so the softmax needs them not. The combining
layer is linear: its part of the features is computed once per source position, before the weighted sum.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.fast.gpu.alive import Alive, place_of
from searnn.fast.gpu.gru_tiles import SMALLEST, side
from searnn.fast.gpu.product import multiply, operand, product_of, stored_as
from searnn.fast.host import interpreted

LARGEST = 43.0  # of a query or key: e^2q and its inverse are just finite


@dataclass(frozen=True)
class AttentionTiles:
    """A program takes `rows` of one example, `units` of their queries and results at a time, `inner` ones to a sum."""

    rows: int
    units: int
    inner: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Attention:
    """Attention over the sources of a batch, made ready for many rows and tokens."""

    query: Float[Tensor, "A D"]
    query_bias: Float[Tensor, "A"]
    score: Float[Tensor, "A"]
    keys: Float[Tensor, "B S A"]  # e^2k
    mask: Int[Tensor, "B S"]
    own: Float[Tensor, "O D"]  # what the combining layer makes of the hidden state
    bias: Float[Tensor, "O"]
    values: Float[Tensor, "B S O"]  # and of the features
    product: str
    tiles: AttentionTiles


@triton.jit
def inverse(values, exact: tl.constexpr):
    """1 / x for x of at least 1: by one instruction, since a division would also see to tiny numbers."""
    if exact:
        found = 1 / values
    else:
        found = tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [values], tl.float32, True, 1)
    return found


@triton.jit
def _times(state, real, weight, column, inside, total, width: tl.constexpr, inner: tl.constexpr, product: tl.constexpr):
    """`total` and the product of the rows' states with some rows of a weight."""
    deep = tl.arange(0, inner)
    for low in range(0, width, inner):
        within = low + deep < width
        left = tl.load(state + (low + deep)[None, :], mask=real[:, None] & within[None, :], other=0.0)
        right = weight + column[None, :] * width + (low + deep)[:, None]
        total = multiply(left, tl.load(right, mask=inside[None, :] & within[:, None], other=0.0), total, product)
    return total


@triton.jit(do_not_specialize=["examples", "count", "source"])
def _attend(order, counts, hidden, query, query_bias, score, keys, mask, own, bias, values, ready, examples, count,
            source, width: tl.constexpr, attended: tl.constexpr, outputs: tl.constexpr, rows: tl.constexpr,
            units: tl.constexpr, inner: tl.constexpr, sources: tl.constexpr, most: tl.constexpr,
            largest: tl.constexpr, exact: tl.constexpr, product: tl.constexpr):  # fmt: skip
    example = tl.program_id(1)
    many = tl.load(counts + example)
    first = tl.program_id(0) * rows
    if first >= many:
        return
    lane = first + tl.arange(0, rows)
    real = lane < many
    row = tl.load(order + example * count + lane, mask=real, other=0)
    state = hidden + row.to(tl.int64)[:, None] * width
    word = tl.arange(0, sources)
    spoken = tl.load(mask + example * source + word, mask=word < source, other=0) != 0
    energy = tl.zeros([rows, sources], tl.float32)
    for start in range(0, attended, units):
        unit = start + tl.arange(0, units)
        held = unit < attended
        asked = tl.zeros([rows, units], tl.float32) + tl.load(query_bias + unit, mask=held, other=0.0)[None, :]
        asked = _times(state, real, query, unit, held, asked, width, inner, product)
        asked = tl.exp(2 * tl.minimum(tl.maximum(asked, -largest), largest))
        weight = -2 * tl.load(score + unit, mask=held, other=0.0)
        for heard in range(source):
            if tl.load(mask + example * source + heard) != 0:
                key = tl.load(keys + (example * source + heard) * attended + unit, mask=held, other=0.0)
                found = tl.sum(weight[None, :] * inverse(1 + asked * key[None, :], exact), 1)
                energy += tl.where((word == heard)[None, :], found[:, None], 0.0)
    # As in the plain code a masked position has the lowest finite energy: an empty source would else give NaN.
    energy = tl.where(spoken[None, :], energy, -3.4028234663852886e38)
    energy = tl.where((word < source)[None, :], energy, float("-inf"))
    energy = tl.exp(energy - tl.max(energy, 1)[:, None])
    share = energy / tl.sum(energy, 1)[:, None]
    place = (place_of(counts, example, examples, most) + lane).to(tl.int64)[:, None]
    for start in range(0, outputs, units):
        column = start + tl.arange(0, units)
        inside = column < outputs
        result = tl.zeros([rows, units], tl.float32) + tl.load(bias + column, mask=inside, other=0.0)[None, :]
        value = values + (example * source + word)[:, None] * outputs + column[None, :]
        there = (word < source)[:, None] & inside[None, :]
        result = multiply(share, tl.load(value, mask=there, other=0.0), result, product)
        result = _times(state, real, own, column, inside, result, width, inner, product)
        written = result.to(ready.dtype.element_ty)
        tl.store(ready + place * outputs + column[None, :], written, mask=real[:, None] & inside[None, :])


def choose_tiles(width: int, count: int, product: str) -> AttentionTiles:
    """With 64 rows 4 warps multiply as one group, and what belongs to a row stays within its warp.

    Where there are as many rows and numbers have 16 bits, a program takes all units at once, by 8 warps if need be:
    every pass over them ends in a sum across them, and one pass is fastest.
    """
    halves, many, most = stored_as(product) == torch.bfloat16, count > SMALLEST, side(width)
    units = min(256 if halves and many else 64, most)
    return AttentionTiles(64 if many else SMALLEST, units, min(64 if halves else 32, most), 8 if units > 128 else 4, 2)


def prepare(
    query: tuple[Float[Tensor, "A D"], Float[Tensor, "A"]],
    score: Float[Tensor, "1 A"],
    keys: Float[Tensor, "B S A"],
    features: Float[Tensor, "B S F"],
    mask: Bool[Tensor, "B S"],
    combine: tuple[Float[Tensor, "O DF"], Float[Tensor, "O"]],
    precision: str,
    tiles: AttentionTiles,
) -> Attention:
    """Make ready the attention of a batch and the layer that combines state and context; weights come with biases."""
    (query_weight, query_bias), (weight, bias), product = query, combine, product_of(precision)
    width = query_weight.shape[1]
    return Attention(
        operand(query_weight, product),
        query_bias.detach(),
        score.detach().flatten(),
        torch.exp(2 * keys.detach().clamp(-LARGEST, LARGEST)).contiguous(),
        mask.to(torch.int32).contiguous(),
        operand(weight[:, :width], product),
        bias.detach(),
        operand(features.detach() @ weight[:, width:].detach().t(), product),
        product,
        tiles,
    )


def attend(attention: Attention, alive: Alive, hidden: Float[Tensor, "N D"], ready: Float[Tensor, "N O"]) -> None:
    """Write to `ready`, by place, what the combining layer makes of every alive row's hidden state and context."""
    (examples, count), (attended, width), tiles = alive.order.shape, attention.query.shape, attention.tiles
    source, outputs = attention.values.shape[1:]
    _attend[(triton.cdiv(count, tiles.rows), examples)](
        alive.order, alive.counts, hidden, attention.query, attention.query_bias, attention.score, attention.keys,
        attention.mask, attention.own, attention.bias, attention.values, ready, examples, count, source, width,
        attended, outputs, tiles.rows, tiles.units, tiles.inner, side(source), side(examples), LARGEST, interpreted(),
        attention.product, num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
