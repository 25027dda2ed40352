"""One step of a GRU layer by the alive rows: the product with the recurrent weights and the gates in one kernel."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Float, Int
from torch import Tensor

from searnn.fast.gpu.alive import Alive, place_of
from searnn.fast.gpu.gru_tiles import SMALLEST, side
from searnn.fast.gpu.product import multiply, stored_as

Entering = tuple[Float[Tensor, "*N E"], Float[Tensor, "*N D"]]  # an input's gates: reset and update, and the new one


@dataclass(frozen=True)
class RecurrenceTiles:
    """A program computes `units` of `rows`, in sums over `inner` units at a time."""

    rows: int
    units: int
    inner: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Recurrence:
    """A GRU layer made ready for many tokens; `seen` are gates that aligned models add at each row's own position."""

    weight: Float[Tensor, "G D"]
    bias: Float[Tensor, "D"]  # of the new gate's recurrent product
    seen: Entering | None
    position: Int[Tensor, "B R"] | None  # before the first token is added
    product: str
    tiles: RecurrenceTiles


@triton.jit
def tanh(values):
    """The hyperbolic tangent, from the exponential that the hardware has."""
    return 2 * tl.sigmoid(2 * values) - 1


@triton.jit
def _entering(both, new, index, column, real, width: tl.constexpr):
    """Three gates of every row, by its index."""
    at = index.to(tl.int64)[:, None]
    reset = tl.load(both + at * (2 * width) + column[None, :], mask=real, other=0.0).to(tl.float32)
    update = tl.load(both + at * (2 * width) + width + column[None, :], mask=real, other=0.0).to(tl.float32)
    return reset, update, tl.load(new + at * width + column[None, :], mask=real, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["added", "examples", "count", "source"])
def _advance(order, counts, tokens, hidden, weight, bias, both, new, seen_both, seen_new, position, hidden_out, ready,
             added, examples, count, source, width: tl.constexpr, by_row: tl.constexpr, sees: tl.constexpr,
             dense: tl.constexpr, rows: tl.constexpr, units: tl.constexpr, inner: tl.constexpr, most: tl.constexpr,
             product: tl.constexpr):  # fmt: skip
    example = tl.program_id(2)
    many = tl.load(counts + example)
    first = tl.program_id(1) * rows
    if first >= many:
        return
    lane = first + tl.arange(0, rows)
    real = lane < many
    row = tl.load(order + example * count + lane, mask=real, other=0)
    column = tl.program_id(0) * units + tl.arange(0, units)
    inside = column < width
    deep = tl.arange(0, inner)
    own = hidden + row.to(tl.int64)[:, None] * width
    reset = tl.zeros([rows, units], tl.float32)
    update = tl.zeros([rows, units], tl.float32)
    fresh = tl.zeros([rows, units], tl.float32)
    for low in range(0, width, inner):
        at = low + deep
        left = tl.load(own + at[None, :], mask=real[:, None] & (at < width)[None, :], other=0.0)
        right = weight + column[None, :] * width + at[:, None]
        there = inside[None, :] & (at < width)[:, None]
        reset = multiply(left, tl.load(right, mask=there, other=0.0), reset, product)
        update = multiply(left, tl.load(right + width * width, mask=there, other=0.0), update, product)
        fresh = multiply(left, tl.load(right + 2 * width * width, mask=there, other=0.0), fresh, product)
    fresh += tl.load(bias + column, mask=inside, other=0.0)[None, :]
    whole = real[:, None] & inside[None, :]
    index = row
    if not by_row:
        index = tl.load(tokens + row, mask=real, other=0)
    in_reset, in_update, in_new = _entering(both, new, index, column, whole, width)
    if sees:
        where = tl.load(position + row, mask=real, other=0).to(tl.int32) + added
        at_source = whole & (where < source)[:, None]
        at_reset, at_update, at_new = _entering(seen_both, seen_new, example * source + where, column, at_source, width)
        in_reset, in_update, in_new = in_reset + at_reset, in_update + at_update, in_new + at_new
    before = tl.load(own + column[None, :], mask=whole, other=0.0)
    fresh = tanh(in_new + tl.sigmoid(in_reset + reset) * fresh)
    after = fresh + tl.sigmoid(in_update + update) * (before - fresh)
    tl.store(hidden_out + row.to(tl.int64)[:, None] * width + column[None, :], after, mask=whole)
    if dense:
        place = (place_of(counts, example, examples, most) + lane).to(tl.int64)
        tl.store(ready + place[:, None] * width + column[None, :], after.to(ready.dtype.element_ty), mask=whole)


def choose_tiles(width: int, count: int, product: str) -> RecurrenceTiles:
    """Few rows where an example has few; deep chunks where numbers have 16 bits."""
    halves = stored_as(product) == torch.bfloat16
    inner = min(64 if halves else 32, side(width))
    if count <= SMALLEST:
        return RecurrenceTiles(SMALLEST, min(64, side(width)), inner, 4, 3)
    return RecurrenceTiles(64, min(32, side(width)), inner, 4, 2 if halves else 3)


def advance_rows(
    layer: Recurrence,
    alive: Alive,
    tokens: Int[Tensor, "B R"] | None,
    entering: Entering,
    hidden: Float[Tensor, "N D"],
    to: Float[Tensor, "N D"],
    ready: Float[Tensor, "N D"] | None,
    added: int,
) -> None:
    """Let every alive row consume its token; the new hidden state goes to its row, and by its place to `ready`.

    `entering` are the gates of every token, or where `tokens` are not given those of every row.
    """
    (examples, count), width, tiles = alive.order.shape, hidden.shape[1], layer.tiles
    seen = layer.seen if layer.seen is not None else entering
    _advance[(triton.cdiv(width, tiles.units), triton.cdiv(count, tiles.rows), examples)](
        alive.order, alive.counts, alive.order if tokens is None else tokens, hidden, layer.weight, layer.bias,
        *entering, *seen, alive.order if layer.position is None else layer.position, to, to if ready is None else ready,
        added, examples, count, seen[0].shape[-2], width, tokens is None, layer.seen is not None, ready is not None,
        tiles.rows, tiles.units, tiles.inner, side(examples), layer.product, num_warps=tiles.warps,
        num_stages=tiles.stages,
    )  # fmt: skip
