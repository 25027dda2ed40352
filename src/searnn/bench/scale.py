"""How a step grows: one size at a time is varied around a base, and a power of it is fitted to time and memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from searnn.bench.machine import peak_bytes
from searnn.bench.rows import Row, frozen_optimizer, searnn_rows
from searnn.bench.settings import Setting, make_model, random_batches
from searnn.bench.timing import Times, exponent
from searnn.bench.watching import Watch
from searnn.costs import Hamming
from searnn.losses import KLLoss
from searnn.samplers import UniformCells
from searnn.types import Batch, Vocabulary


@dataclass(frozen=True)
class Sizes:
    """The letters of the project; without `C` every cell is costed."""

    B: int = 32
    T: int = 16
    V: int = 64
    K: int = 8
    D: int = 128
    C: int | None = None


AXES: Mapping[str, Sequence[int]] = {
    "T": (8, 16, 32, 64),
    "V": (64, 256, 1024, 4096),
    "K": (4, 8, 16, 32),
    "C": (2, 4, 8, 16),
    "B": (16, 32, 64, 128),
    "D": (32, 64, 128, 256),
}


@dataclass(frozen=True)
class Point:
    """A step of one size: as it is fastest, and as its memory can be seen, which a recorded one took beforehand."""

    timed: Row
    weighed: Row
    batch: Batch


class Growth:
    """One axis: a step of every size, timed in turn. Along T focused costing is timed beside full roll-outs."""

    def __init__(self, axis: str, values: Sequence[int], base: Sizes, device: torch.device) -> None:
        self.axis, self.values, self.device = axis, values, device
        self.points: dict[tuple[str, int], Point] = {}
        for roll_out in ("learned", "focused") if axis == "T" else ("learned",):
            for value in values:
                self.points[roll_out, value] = make_point(replace(base, **{axis: value}), roll_out, device)
        self.times = Times()
        self.peaks: dict[tuple[str, int], int | None] = {}

    def measure(self, rounds: int, warm_up: int, watch: Watch) -> None:
        """Time all sizes in turn, then take the memory of each."""
        watch.stage(f"scale: {self.axis}", warm_up + rounds)
        works = {
            f"{roll_out} {value}": lambda _, point=point: point.timed.step(point.batch)
            for (roll_out, value), point in self.points.items()
        }
        self.times.take(works, [None], rounds, warm_up, self.device, watch)
        for key, point in self.points.items():
            self.peaks[key] = peak_bytes(lambda point=point: point.weighed.step(point.batch), self.device)  # type: ignore[misc]

    def report(self) -> list[dict[str, Any]]:
        """A line for each roll-out: all sizes with their times and memory, and the exponents."""
        lines = []
        for roll_out in dict.fromkeys(roll_out for roll_out, _ in self.points):
            times = [self.times.summary(f"{roll_out} {value}") for value in self.values]
            peaks = [self.peaks.get((roll_out, value)) for value in self.values]
            points = [
                {"size": value, "ms": ms, "peak_bytes": peak}
                for value, ms, peak in zip(self.values, times, peaks, strict=True)
            ]
            lines.append(
                {
                    "axis": self.axis,
                    "roll_out": roll_out,
                    "points": points,
                    "time_exponent": exponent(self.values, [ms["median"] for ms in times]),
                    "memory_exponent": exponent(self.values, peaks),
                }
            )
        return lines


def make_point(sizes: Sizes, roll_out: str, device: torch.device) -> Point:
    """A step of SEARNN with these sizes, on labels of a known length."""
    setting = Setting(
        "scale", Vocabulary(sizes.V, sizes.V, sizes.V + 1), width=sizes.D, batch_size=sizes.B, cells=sizes.T,
        features=sizes.D, cost=Hamming, loss=KLLoss(3.0), choices=(sizes.K,), rounds=1,
    )  # fmt: skip
    model = make_model(setting).to(device).train()
    cells = None if sizes.C is None else UniformCells(sizes.C)
    rows = searnn_rows(setting, model, frozen_optimizer(model), roll_out, sizes.K, cells)
    return Point(rows[-1], rows[0], random_batches(setting, 1)[0].to(device))
