"""How the kernel of whole roll-outs cuts its work: the sizes of its tiles, and in which numbers it multiplies.

Nothing here needs Triton.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Product = Literal["halves", "tf32x3", "ieee", "tf32", "bf16"]
# "halves" writes each float32 as the sum of two float16 and leaves out the product of the lower ones alone: 22 bits of
# every operand, summed in float32, on the tensor cores at twice the rate of "tf32x3".
PRODUCTS: dict[str, Product] = {"float32": "halves", "tf32": "tf32", "bf16": "bf16"}
SMALLEST = 16  # side of a tile that the tensor cores take


@dataclass(frozen=True)
class Tiles:
    """A program takes `rows`; it computes the gates of `units` at a time, in sums over `depth` units at a time.

    `registers` bounds those of a thread, so that more programs run beside each other.
    """

    rows: int
    units: int
    depth: int
    warps: int
    stages: int
    product: Product = "halves"
    registers: int | None = None


@dataclass(frozen=True)
class Sizes:
    """The decoder's width, and the padded sizes of its state, queries (0: no attention) and scores."""

    width: int
    padded: int
    attended: int
    tokens: int

    @property
    def total(self) -> int:
        """Rows of the packed weights: those of three gates, of the queries and of the scores."""
        return 3 * self.padded + self.attended + self.tokens


def choose_tiles(width: int, attention: int, vocabulary: int, rows: int, precision: str, shared: int) -> Tiles:
    """The tiles for a decoder of this width, attention (0: none) and vocabulary, and so many rows per example.

    Many rows are for roll-outs: with 64 of them in a program 4 warps multiply as one group, and each row's numbers stay
    within one warp. Few are for roll-ins, which wait for one cell after another: there more warps load the weights
    sooner. `shared` is how many bytes of shared memory a program may take.
    """
    whole = side(width)
    product = PRODUCTS[precision]
    if rows < 32:
        tiles = Tiles(16, min(whole, 128), min(whole, 64), 8, 3, product)
    elif rows < 64 or whole > 128 or vocabulary > 128:  # then what is read out of 64 rows would not fit the registers
        tiles = Tiles(32, min(whole, 64), min(whole, 32), 8, 2, product)
    else:
        tiles = Tiles(64, min(whole, 32), min(whole, 32), 4, 2, product)
    while shared_bytes(tiles, padded_sizes(width, attention, vocabulary, tiles)) > shared:
        if tiles.stages > 1:
            tiles = replace(tiles, stages=tiles.stages - 1)
        elif tiles.depth > SMALLEST:
            tiles = replace(tiles, depth=tiles.depth // 2)
        else:
            break
    return tiles


def padded_sizes(width: int, attention: int, vocabulary: int, tiles: Tiles) -> Sizes:
    """The sizes for these tiles."""
    tile = max(tiles.units, tiles.depth)
    padded = -(-width // tile) * tile
    return Sizes(width, padded, side(attention) if attention else 0, side(vocabulary))


def shared_bytes(tiles: Tiles, sizes: Sizes) -> int:
    """How much shared memory a program takes: what is loaded ahead for the products, and some room to reorder values.

    The groups of warps that multiply 64 rows read their operands from there, others load them into registers first.
    """
    columns = max(3 * tiles.units, sizes.attended + sizes.tokens) + tiles.rows
    copies = tiles.stages if tiles.rows >= 64 else max(1, tiles.stages - 1)
    return copies * tiles.depth * columns * (2 if tiles.product == "bf16" else 4) + 8192


def side(size: int) -> int:
    """The next power of two that a tile may have as a side."""
    return max(SMALLEST, 1 << (size - 1).bit_length())
