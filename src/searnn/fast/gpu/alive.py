"""Which rows still advance: lists of them, shortened on the device after every token, so that ended rows cost nothing.

`order[b]` lists the alive rows of example b, of which there are `counts[b]`. The alive rows of all examples are
numbered one example after another: these places are what is dense, for the product with the vocabulary.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Int
from torch import Tensor

from searnn.fast.gpu.gru_tiles import side
from searnn.fast.gpu.vocabulary import NOTHING, token_of

LANES = 1024


@dataclass(frozen=True)
class Alive:
    """The alive rows of every example, numbered through all examples, and how many they are."""

    order: Int[Tensor, "B R"]
    counts: Int[Tensor, "B"]


@dataclass(frozen=True)
class Writing:
    """What is written: where each row goes on, how many tokens it may take, its last token, all outputs, the keys."""

    slots: Int[Tensor, "B R"]
    room: Int[Tensor, "B R"]
    tokens: Int[Tensor, "B R"]
    outputs: Int[Tensor, "B R T"]
    keys: Int[Tensor, "N"]
    eos: int | None


@triton.jit
def place_of(counts, example, examples, most: tl.constexpr):
    """The place of an example's first alive row among those of all examples."""
    every = tl.arange(0, most)
    return tl.sum(tl.load(counts + every, mask=(every < example) & (every < examples), other=0), 0)


@triton.jit(do_not_specialize=["added", "examples", "count", "length", "eos"])
def _shorten(order, counts, order_out, counts_out, slots, room, tokens, outputs, keys, added, examples, count, length,
             eos, begins: tl.constexpr, ends: tl.constexpr, lanes: tl.constexpr, most: tl.constexpr,
             nothing: tl.constexpr):  # fmt: skip
    example = tl.program_id(0)
    first = example * count
    many = count if begins else tl.load(counts + example)
    place = 0 if begins else place_of(counts, example, examples, most)
    kept = 0
    for low in range(0, many, lanes):
        lane = low + tl.arange(0, lanes)
        real = lane < many
        if begins:
            row = first + lane
            token = tl.load(tokens + row, mask=real, other=0)
        else:
            row = tl.load(order + first + lane, mask=real, other=0)
            token = token_of(tl.load(keys + place + lane, mask=real, other=0))
            tl.store(keys + place + lane, tl.full([lanes], nothing, tl.int64), mask=real)
            tl.store(tokens + row, token, mask=real)
            slot = tl.load(slots + row, mask=real, other=0) + added
            tl.store(outputs + row.to(tl.int64) * length + slot, token.to(tl.int64), mask=real)
        alive = real & (tl.load(room + row, mask=real, other=0) > added + 1)
        if ends:
            alive = alive & (token != eos)
        number = tl.cumsum(alive.to(tl.int32), 0)
        tl.store(order_out + first + kept + number - 1, row, mask=alive)
        kept += tl.sum(alive.to(tl.int32), 0)
    tl.store(counts_out + example, kept)


def no_rows(examples: int, count: int, device: torch.device) -> Alive:
    """Lists to be written into."""
    order = torch.empty(examples, count, dtype=torch.int32, device=device)
    return Alive(order, torch.empty(examples, dtype=torch.int32, device=device))


def no_keys(count: int, device: torch.device) -> Int[Tensor, "N"]:
    """A key for each row, below every key that is found."""
    return torch.full((count,), NOTHING, dtype=torch.int64, device=device)


def shorten(alive: Alive | None, to: Alive, writing: Writing, added: int) -> None:
    """Write the token found for every alive row; list in `to` the rows that take another. At the start all are listed.

    `added` counts the tokens added before, -1 at the start.
    """
    examples, count, length = writing.outputs.shape
    given = to if alive is None else alive
    _shorten[(examples,)](
        given.order, given.counts, to.order, to.counts, writing.slots, writing.room, writing.tokens, writing.outputs,
        writing.keys, added, examples, count, length, -1 if writing.eos is None else writing.eos, alive is None,
        writing.eos is not None, min(LANES, side(count)), side(examples), NOTHING, num_warps=4,
    )  # fmt: skip
