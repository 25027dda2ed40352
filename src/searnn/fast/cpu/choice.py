"""The best-scored token of each row of a block on a CPU: attention and products in buffers that are made once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from searnn.fast.cpu import rows as cpu_rows
from searnn.fast.cpu import vocabulary as cpu_vocabulary

SCORES = 1 << 18  # scores of a block that are computed before they are looked at


@dataclass(frozen=True)
class Attended:
    """What additive attention reads; A and W are filled up to whole vectors."""

    read: Float[Tensor, "D Q"]  # the query's weights and, beside them, those of the state's own part of what is mixed
    bias: Float[np.ndarray, "A"]
    energies: Float[np.ndarray, "A"]
    keys: Float[np.ndarray, "B S A"]  # exp(2 k)
    values: Float[np.ndarray, "B S W"]
    mask: Bool[np.ndarray, "B S"]


@dataclass(frozen=True)
class Short:
    """The weights of a large vocabulary in 8 bits, filled up to whole chunks, and what was lost."""

    wholes: Int[Tensor, "V D"]
    scales: Float[np.ndarray, "V"]
    bias: Float[np.ndarray, "V"]
    bounds: Float[np.ndarray, "N 2"]


@dataclass(frozen=True)
class Scorer:
    """From states to scores: through attention or not, by weights or, where attention mixes the scores, without."""

    attended: Attended | None
    weight: Float[Tensor, "V D"] | None
    bias: Float[np.ndarray, "V"]  # minus infinity at what must not be chosen
    short: Short | None = None


def has_fast_integers() -> bool:
    """Whether the library's product of 8-bit integers is known to be faster than that of floats here."""
    wide = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    return wide and torch._C._has_mkldnn and "_int_mm" in vars(torch)


def shorten(weight: Float[Tensor, "V D"], bias: Float[np.ndarray, "V"]) -> Short:
    """The weights in 8 bits."""
    tokens = -(-len(weight) // cpu_vocabulary.CHUNK) * cpu_vocabulary.CHUNK
    wholes = torch.zeros(tokens, weight.shape[1], dtype=torch.int8)
    sizes = np.zeros((tokens, 3), np.float32)
    cpu_vocabulary.shorten(weight.numpy(), len(weight), 0, cpu_vocabulary.OF_WEIGHTS, wholes.numpy(), sizes)
    lost = sizes[:, cpu_vocabulary.LOST]
    norms = sizes[:, cpu_vocabulary.NORM] + lost  # of what is left, at most
    bounds = np.stack([part.reshape(-1, cpu_vocabulary.CHUNK).max(1) for part in (lost, norms)], 1)
    filled = np.concatenate([bias, np.full(tokens - len(bias), -np.inf, np.float32)])
    return Short(wholes, np.ascontiguousarray(sizes[:, cpu_vocabulary.SCALE]), filled, bounds)


class Buffer:
    """Rows that are written again and again; taking a part of them costs microseconds, so the last is kept."""

    def __init__(self, rows: int, width: int, dtype: torch.dtype = torch.float32) -> None:
        self.all = self.part = torch.empty(rows, width, dtype=dtype)
        self.array, self.rows = self.all.numpy(), rows

    def first(self, rows: int) -> Shaped[Tensor, "N D"]:
        """The first rows."""
        if rows != self.rows:
            self.part, self.rows = self.all[:rows], rows
        return self.part


class Chooser:
    """Chooses for the rows of one block; holds what is written on the way."""

    def __init__(self, scorer: Scorer, seats: int) -> None:
        self.scorer = scorer
        self.best = np.empty(seats, np.int32)
        if scorer.attended is not None:
            self.asked = Buffer(seats, scorer.attended.read.shape[1])
        if scorer.weight is None:
            return
        width = max(256, SCORES // seats) // cpu_vocabulary.CHUNK * cpu_vocabulary.CHUNK
        if scorer.short is None:
            width = min(width, len(scorer.weight))
            self.scores = Buffer(seats, width)
            lows = range(0, len(scorer.weight), width)
            self.parts = [(low, scorer.weight[low : low + width].t(), scorer.bias[low:]) for low in lows]
        else:
            wholes = torch.split(scorer.short.wholes, width)
            self.whole_parts = [(number * width, part.t()) for number, part in enumerate(wholes)]
            self.products = {len(part): Buffer(seats, len(part), torch.int32) for part in wholes}
            self.rows = Buffer(seats, wholes[0].shape[1], torch.int8)
            self.sizes = np.empty((seats, 3), np.float32)
            self.floors, self.found = np.empty(seats, np.float32), np.empty(seats, np.int64)
            most = cpu_vocabulary.MOST_FOUND
            self.tokens, self.tops = np.empty((seats, most), np.int32), np.empty((seats, most), np.float32)

    def __call__(self, hidden: Buffer, count: int, seated: Int[np.ndarray, "F M"]) -> None:
        """Write the chosen tokens of the first `count` rows into `seated`."""
        scorer, attended, offset, states = self.scorer, self.scorer.attended, 0, hidden
        if attended is not None:
            states, offset = self.asked, len(attended.bias)
            torch.mm(hidden.first(count), attended.read, out=states.first(count))
            cpu_rows.attend_rows(
                states.array, offset, attended.bias, attended.energies, attended.keys, attended.values, attended.mask,
                seated, count,
            )  # fmt: skip
        if scorer.weight is None:
            width = len(scorer.bias)
            cpu_rows.choose_tokens(states.array, offset, width, scorer.bias, 0, self.best, seated, count)
        elif scorer.short is None:
            self._score(states, offset, count, seated)
        else:
            self._screen(scorer.weight, scorer.short, states, offset, count, seated)

    def _score(self, states: Buffer, offset: int, count: int, seated: Int[np.ndarray, "F M"]) -> None:
        """By scores of all tokens."""
        rows, scores = states.first(count), self.scores.first(count)
        rows = rows[:, offset:] if offset else rows
        for low, weight, bias in self.parts:
            width = weight.shape[1]
            torch.mm(rows, weight, out=scores if width == scores.shape[1] else scores[:, :width])
            cpu_rows.choose_tokens(self.scores.array, 0, width, bias, low, self.best, seated, count)

    def _screen(
        self,
        weight: Float[Tensor, "V D"],
        short: Short,
        states: Buffer,
        offset: int,
        count: int,
        seated: Int[np.ndarray, "F M"],
    ) -> None:
        """By scores of those tokens that may be the best."""
        found = (self.floors, self.tokens, self.tops, self.found)
        cpu_vocabulary.shorten(states.array, count, offset, cpu_vocabulary.OF_ROWS, self.rows.array, self.sizes)
        self.floors.fill(-np.inf)
        self.found.fill(0)
        rows = self.rows.first(count)
        for low, part in self.whole_parts:
            products = self.products[part.shape[1]]
            torch._int_mm(rows, part, out=products.first(count))
            cpu_vocabulary.screen(
                products.array, low, short.scales, short.bias, short.bounds, self.sizes, *found, count
            )  # fmt: skip
        cpu_vocabulary.settle(states.array, offset, weight.numpy(), self.scorer.bias, *found, seated, count)
