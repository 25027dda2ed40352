"""The best token of every row in a large vocabulary: product and arg-max in one kernel, which never writes the scores.

The tiles of rows x tokens are numbered block of rows by block of rows, and every program takes an equal share of them:
all are busy to the end however few rows there are. What programs find for one row is joined by an atomic maximum.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from searnn.fast.gpu.gru_tiles import side
from searnn.fast.gpu.product import multiply, operand, product_of, stored_as
from searnn.fast.host import shared_memory

NOTHING = -(2**63)  # below every key


@dataclass(frozen=True)
class Tiles:
    """A tile is `rows` x `tokens`, in sums over `inner` units at a time; `resident` programs share a multiprocessor.

    With all units at once the rows are loaded once for all tokens; else with every tile again.
    """

    rows: int
    tokens: int
    inner: int
    warps: int
    stages: int
    resident: int = 1


@dataclass(frozen=True)
class Readout:
    """A vocabulary made ready for many products: padded to whole tiles, with biases that forbid what is not scored."""

    weight: Float[Tensor, "P D"]
    bias: Float[Tensor, "P"]
    product: str
    tiles: Tiles


@triton.jit
def key_of(value, token):
    """A whole number that is larger for a larger value, and among equal values for an earlier token."""
    bits = tl.where(value == 0, 0.0, value).to(tl.int32, bitcast=True)
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (ordered.to(tl.int64) << 32) | (token ^ 0x7FFFFFFF).to(tl.int64)


@triton.jit
def token_of(key):
    """The token of a key."""
    return (key & 0x7FFFFFFF).to(tl.int32) ^ 0x7FFFFFFF


@triton.jit(do_not_specialize=["examples", "tiles"])
def _best(hidden, weight, bias, counts, keys, examples, tiles, width: tl.constexpr, rows: tl.constexpr,
          tokens: tl.constexpr, inner: tl.constexpr, most: tl.constexpr, product: tl.constexpr):  # fmt: skip
    every = tl.arange(0, most)
    alive = tl.sum(tl.load(counts + every, mask=every < examples, other=0), 0)
    total = tl.cdiv(alive, rows) * tiles
    share = tl.cdiv(total, tl.num_programs(0))
    start = tl.program_id(0) * share
    end = tl.minimum(start + share, total)
    units = tl.arange(0, inner)
    column = tl.arange(0, tokens)
    for block in range(start // tiles, tl.cdiv(end, tiles)):
        row = block * rows + tl.arange(0, rows)
        real = row < alive
        source = hidden + row.to(tl.int64)[:, None] * width + units[None, :]
        if inner >= width:
            whole = tl.load(source, mask=real[:, None] & (units < width)[None, :], other=0.0)
        top = tl.full([rows, tokens], float("-inf"), tl.float32)  # the best of each column of the tiles so far
        found = tl.zeros([rows, tokens], tl.int32)  # and its tile
        for tile in range(tl.maximum(start - block * tiles, 0), tl.minimum(end - block * tiles, tiles)):
            token = tile * tokens + column
            offset = tl.load(bias + token)
            table = weight + token[None, :] * width + units[:, None]
            scores = tl.zeros([rows, tokens], tl.float32)
            if inner >= width:
                chunk = tl.load(table, mask=(units < width)[:, None], other=0.0)
                scores = multiply(whole, chunk, scores, product)
            else:
                for first in range(0, width, inner):
                    inside = first + units < width
                    left = tl.load(source + first, mask=real[:, None] & inside[None, :], other=0.0)
                    chunk = tl.load(table + first, mask=inside[:, None], other=0.0)
                    scores = multiply(left, chunk, scores, product)
            scores += offset[None, :]
            better = scores > top
            top = tl.where(better, scores, top)
            found = tl.where(better, tile, found)
        best = tl.max(top, 1)
        token = tl.where(top == best[:, None], found * tokens + column[None, :], 0x7FFFFFFF)
        tl.atomic_max(keys + row, key_of(best, tl.min(token, 1)), mask=real, sem="relaxed")


def choose_tiles(width: int, product: str, device: torch.device) -> Tiles:
    """The fastest on an H200; in 16 bits all units at once, where rows and two chunks of the weight fit (227 KB)."""
    if stored_as(product) == torch.float32:
        return Tiles(128, 64, min(32, side(width)), 8, 4 if product == "tf32" else 3)
    if side(width) <= 256 and 2 * side(width) * (128 + 2 * 128) <= shared_memory(device):
        return Tiles(128, 128, side(width), 8, 2)
    return Tiles(128, 64, min(64, side(width)), 8, 3)


def readout(
    weight: Float[Tensor, "V D"],
    bias: Float[Tensor, "V"],
    forbidden: Sequence[int],
    precision: str,
    tiles: Tiles | None = None,
) -> Readout:
    """Make a vocabulary ready: the tokens that are `forbidden` and scored get a bias of minus infinity."""
    product = product_of(precision)
    tiles = tiles if tiles is not None else choose_tiles(weight.shape[1], product, weight.device)
    size, padding = len(weight), -len(weight) % tiles.tokens
    biases = torch.full((size + padding,), -torch.inf, device=bias.device)
    biases[:size] = bias.detach()
    for token in forbidden:
        if token < size:
            biases[token : token + 1].fill_(-torch.inf)  # an item assigned would make the host wait
    padded = functional.pad(operand(weight, product), (0, 0, 0, padding))
    return Readout(padded, biases, product, tiles)


@cache
def programs(device: torch.device) -> int:
    """How many multiprocessors there are; on a CPU few, for the interpreter runs them one after another."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 3


def find_keys(hidden: Float[Tensor, "N D"], counts: Int[Tensor, "B"], table: Readout, keys: Int[Tensor, "N"]) -> None:
    """Raise `keys` to those of the best tokens of the first rows, of which there are as many as the sum of `counts`.

    The keys must be `NOTHING` before, the rows as `operand` makes them.
    """
    tiles, width = table.tiles, hidden.shape[1]
    _best[(programs(hidden.device) * tiles.resident,)](
        hidden, table.weight, table.bias, counts, keys, len(counts), len(table.weight) // tiles.tokens, width,
        tiles.rows, tiles.tokens, tiles.inner, side(len(counts)), table.product,
        num_warps=tiles.warps, num_stages=tiles.stages,
    )  # fmt: skip
