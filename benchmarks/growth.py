"""How a step grows: one size at a time is varied around a base, and a power of it is fitted to time and memory.

    python benchmarks/growth.py [--threads 1] [--steps 3]

The letters of the sizes are those of the project. Along T focused costing is timed beside full roll-outs.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from laboratory import execute, flags
from rich.table import Table

from searnn.bench import Setting, Watch
from searnn.bench.machine import peak_bytes
from searnn.bench.methods import OwnUpdate, TimedMethod, frozen_optimizer, own_methods, searnn
from searnn.bench.rendering import NONE, make_table, number, span
from searnn.bench.settings import make_model, random_batches
from searnn.bench.timing import Times
from searnn.cli.bench import Shown
from searnn.costs import Hamming
from searnn.losses import KLLoss
from searnn.policies import Focused
from searnn.samplers import UniformCells
from searnn.types import Batch, Vocabulary

ROUNDS, WARM_UP = 5, 2


@dataclass(frozen=True)
class Sizes:
    """The letters of the project; without `C` every cell is costed."""

    B: int = 32
    T: int = 16
    V: int = 64
    K: int = 8
    D: int = 128
    C: int | None = None


BASE = Sizes()
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

    timed: TimedMethod
    weighed: TimedMethod
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

    def measure(self, rounds: int, watch: Watch) -> None:
        """Time all sizes in turn, then take the memory of each."""
        watch.stage(f"growth along {self.axis}", WARM_UP + rounds)
        works = {
            f"{roll_out} {value}": lambda _, point=point: point.timed.step(point.batch)
            for (roll_out, value), point in self.points.items()
        }
        self.times.take(works, [None], rounds, WARM_UP, self.device, watch.advance)
        for key, point in self.points.items():
            self.peaks[key] = peak_bytes(lambda point=point: point.weighed.step(point.batch), self.device)

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
        "growth", Vocabulary(sizes.V, sizes.V, sizes.V + 1), width=sizes.D, batch_size=sizes.B, cells=sizes.T,
        features=sizes.D, cost=Hamming, loss=KLLoss(3.0), choices=(sizes.K,), rounds=1,
    )  # fmt: skip
    model = make_model(setting).to(device).train()
    algorithm = searnn(setting, "learned", sizes.K)
    if roll_out == "focused":
        algorithm = replace(algorithm, roll_out=Focused(1))
    if sizes.C is not None:
        algorithm = replace(algorithm, cells=UniformCells(sizes.C))
    methods = own_methods(roll_out, OwnUpdate(model, algorithm, frozen_optimizer(model)), {})
    return Point(methods[-1], methods[0], random_batches(setting, 1)[0].to(device))


def exponent(sizes: Sequence[float], values: Sequence[float | None]) -> float | None:
    """The power of the size that the values grow with: least squares of their logarithms; None for fewer than two."""
    known = [(math.log(x), math.log(y)) for x, y in zip(sizes, values, strict=True) if y is not None and y > 0]
    if len({x for x, _ in known}) < 2:
        return None
    return statistics.linear_regression(*zip(*known, strict=True)).slope


def growth_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """How time and memory grow, size by size, and the exponents."""
    table = make_table("size", "roll-out", "", "median, ms", "quartiles, ms", "memory, MB", "time ~", "memory ~")
    for line in lines:
        axis = line["axis"]
        powers = [power(axis, line["time_exponent"]), power(axis, line["memory_exponent"])]
        for place, point in enumerate(line["points"]):
            name, roll_out, *shown = [axis, line["roll_out"], *powers] if place == 0 else [""] * 4
            ms = point["ms"]
            times = [number(ms["median"]), span(ms["lower"], ms["upper"])]
            table.add_row(name, roll_out, str(point["size"]), *times, number(point["peak_bytes"], 1e-6), *shown)
    return table


def power(axis: str, exponent: float | None) -> str:
    """A power of a size."""
    return NONE if exponent is None else f"{axis}^{exponent:.2f}"


def measure(
    arguments: argparse.Namespace, device: torch.device, report: dict[str, Any], shown: Shown, base: Sizes = BASE
) -> None:
    """Every axis, as far as it is not interrupted, in one table."""
    report |= {"base": asdict(base), "lines": []}
    around = ", ".join(f"{letter} {'T' if size is None else size}" for letter, size in report["base"].items())
    try:
        for axis, values in AXES.items():
            growth = Growth(axis, values, base, device)
            try:
                growth.measure(arguments.steps or ROUNDS, shown)
            finally:
                report["lines"] += growth.report()
    finally:
        shown.show(growth_table(report["lines"]), f"growth of a SEARNN step around {around}")


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    return execute(flags(__doc__), measure, words)


if __name__ == "__main__":
    sys.exit(main())
