"""One setting: all its rows timed in turn, then broken down, then their memory; and what they are beside the floor."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from searnn.algorithms import Mle
from searnn.bench.counting import Amounts, products, traffic
from searnn.bench.machine import gauges, peak_bytes
from searnn.bench.phases import Clock
from searnn.bench.rows import OURS, PLAIN, Ours, Row, make_rows
from searnn.bench.settings import Setting, make_model, sizes_of
from searnn.bench.timing import Times, ratio
from searnn.bench.watching import Watch
from searnn.training import TrainingSettings
from searnn.training.optimisation import make_optimizer
from searnn.types import Batch

SEARCH = ("table", "roll-in", "roll-out")  # their products may run in a lower precision


class Comparison:
    """What is measured of one setting, stage by stage; what is there can be reported at any time."""

    def __init__(self, setting: Setting, batches: Sequence[Batch], device: torch.device, precision: str) -> None:
        self.setting, self.device = setting, device
        self.sizes = sizes_of(setting, batches)
        self.batches = [batch.to(device) for batch in batches]
        self.model = make_model(setting).to(device).train()
        self.rows = make_rows(setting, self.model, self.batches)
        self.gauges = {gauge.name: gauge for gauge in gauges(device, precision)}
        self.search_rate = precision if precision in self.gauges else "float32"
        self.times = Times()
        self.phases: dict[str, list[dict[str, float]]] = {}
        self.amounts: dict[str, list[Amounts]] = {}
        self.peaks: dict[str, int | None] = {}

    def pretrain(self, updates: int, draw: Callable[[int], Batch], watch: Watch) -> None:
        """Train by maximum likelihood, so that outputs end where those of a trained model do."""
        watch.stage(f"{self.setting.name}: training", updates)
        trained = Ours(self.model, Mle(), make_optimizer(TrainingSettings(optimizer="adam", lr=1e-3), self.model))
        for number in range(updates):
            trained.step(draw(number).to(self.device))
            watch.advance()

    def time(self, rounds: int, warm_up: int, watch: Watch) -> None:
        """Every row's step, and the machine itself, in every round."""
        watch.stage(f"{self.setting.name}: timing", warm_up + rounds)
        works: dict[str, Callable[[Batch], object]] = {row.name: row.step for row in self.rows}
        works |= {name: lambda _, work=gauge.work: work() for name, gauge in self.gauges.items()}  # type: ignore[misc]
        self.times.take(works, self.batches, rounds, warm_up, self.device, watch)

    def take_apart(self, passes: int, watch: Watch) -> None:
        """Every row's step with each batch under a clock, apart from the times, which the clock would disturb."""
        watch.stage(f"{self.setting.name}: taking apart", passes * len(self.batches))
        for number, batch in enumerate(passes * self.batches):
            for row in self.rows:
                if row.phased is not None:
                    clock = Clock(self.device)
                    amounts = row.phased(batch, clock)
                    self.phases.setdefault(row.name, []).append(clock.times())
                    if number < len(self.batches):
                        self.amounts.setdefault(row.name, []).append(amounts)
            watch.advance()

    def weigh(self, watch: Watch) -> None:
        """The memory of every row's step, but for those that took theirs when they were recorded."""
        weighed = [row for row in self.rows if row.phased is not None]
        watch.stage(f"{self.setting.name}: memory", len(weighed))
        for row in weighed:
            self.peaks[row.name] = peak_bytes(lambda step=row.step: step(self.batches[0]), self.device)  # type: ignore[misc]
            watch.advance()

    def report(self) -> dict[str, Any]:
        """All that is known so far."""
        return {
            "name": self.setting.name,
            "data": self.setting.data,
            "sizes": self.sizes,
            "batches": len(self.batches),
            "rates": {name: self._rate(name) for name in self.gauges},
            "rows": [self._row(row) for row in self.rows],
        }

    def _row(self, row: Row) -> dict[str, Any]:
        median = self.times.median(row.name)
        steps, floor = self._floor(row)
        per_second = ratio(steps, median)
        return {
            "name": row.name,
            **(row.about or {}),
            "ms": self.times.summary(row.name),
            "first_ms": self.times.first.get(row.name),
            "x_plain_mle": ratio(median, self.times.median(PLAIN)),
            "x_mle": ratio(median, self.times.median(OURS)),
            "breakdown_ms": self._breakdown(row.name),
            "peak_bytes": self.peaks.get(row.name),
            "row_steps": steps,
            "row_steps_per_second": None if per_second is None else 1e3 * per_second,
            **floor,
            "of_floor": ratio(floor.get("floor_ms"), median),
        }

    def _breakdown(self, name: str) -> dict[str, float] | None:
        """The phases of the run in the middle, so that they add up to a step that took place."""
        ordered = sorted(self.phases.get(name, []), key=lambda phases: sum(phases.values()))
        if not ordered:
            return None
        middle = ordered[(len(ordered) - 1) // 2]
        return {**middle, "total": sum(middle.values())}

    def _floor(self, row: Row) -> tuple[float | None, dict[str, Any]]:
        """Row-steps, operations and bytes of a step, means over the batches, and the time that they need at least."""
        found = self.amounts.get(row.like or row.name)
        if not found:
            return None, {}
        counted = [products(self.model, amounts) for amounts in found]
        operations = {phase: statistics.mean(one[phase] for one in counted) for phase in counted[0]}
        moved = statistics.mean(traffic(self.model, amounts) for amounts in found)
        multiplying, searching_at, copying = (
            self._rate(name)["median"] for name in ("float32", self.search_rate, "copy")
        )
        shown: dict[str, Any] = {"operations": operations, "bytes": moved}
        steps = statistics.mean(amounts.row_steps for amounts in found)
        if multiplying is None or searching_at is None or copying is None:
            return steps, shown
        searching = sum(operations[phase] for phase in SEARCH)
        computing = (sum(operations.values()) - searching) / multiplying + searching / searching_at
        moving = moved / copying
        bound = "bytes" if moving > computing else "operations"
        return steps, {**shown, "floor_ms": 1e3 * max(computing, moving), "bound_by": bound}

    def _rate(self, name: str) -> dict[str, float | None]:
        """Operations or bytes a second: median and quartiles over the rounds."""
        amount, spent = self.gauges[name].amount, self.times.summary(name)
        flipped = {"median": "median", "lower": "upper", "upper": "lower"}
        return {new: ratio(1e3 * amount, spent[old]) for new, old in flipped.items()}
