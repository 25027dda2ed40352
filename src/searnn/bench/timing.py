"""Times that can be compared: everything takes its turn in every round; and who is told how far a benchmark is."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch

Item = TypeVar("Item")
IN_A_ROW = {"cpu": 1, "cuda": 5}  # steps timed together: a GPU is fed ahead, as in training


def milliseconds(work: Callable[[], object], device: torch.device, count: int = 1) -> float:
    """How long the work takes, the mean of `count` times in a row."""
    synchronise(device)
    began = time.perf_counter()
    for _ in range(count):
        work()
    synchronise(device)
    return 1e3 * (time.perf_counter() - began) / count


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Times:
    """Milliseconds of several pieces of work: the first call of each, and those after the warm-up."""

    def __init__(self) -> None:
        self.first: dict[str, float] = {}
        self.kept: dict[str, list[float]] = {}

    def take(
        self,
        works: Mapping[str, Callable[[Item], object]],
        items: Sequence[Item],
        rounds: int,
        warm_up: int,
        device: torch.device,
        advance: Callable[[], object],
    ) -> None:
        """Time all of them, round after round, with the same item in a round; the first rounds warm up."""
        for number in range(warm_up + rounds):
            item = items[number % len(items)]
            for name, work in works.items():
                count = 1 if number == 0 else IN_A_ROW[device.type]
                spent = milliseconds(lambda work=work, item=item: work(item), device, count)  # type: ignore[misc]
                self.first.setdefault(name, spent)
                if number >= warm_up:
                    self.kept.setdefault(name, []).append(spent)
            advance()

    def median(self, name: str) -> float | None:
        """The median of one of them, None where it was not timed."""
        return statistics.median(self.kept[name]) if name in self.kept else None

    def summary(self, name: str) -> dict[str, Any]:
        """Median, quartiles and all times, for a report."""
        values = self.kept.get(name, [])
        if not values:
            return {"median": None, "lower": None, "upper": None, "all": []}
        lower, middle, upper = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        return {"median": middle, "lower": lower, "upper": upper, "all": values}


def ratio(above: float | None, below: float | None) -> float | None:
    """`above / below` where both are known."""
    return above / below if above is not None and below else None


class Watch:
    """Is told what is being done in so many parts, each of them that is done, and every result; this one is silent."""

    def stage(self, text: str, parts: int) -> None:
        """Something begins."""

    def advance(self) -> None:
        """A part of it is done."""

    def found(self, result: dict[str, Any]) -> None:
        """A result is there."""

    def note(self, text: str) -> None:
        """Something that should be known."""
