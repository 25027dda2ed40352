"""One setting: all its methods timed in turn, then taken apart, then their memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from searnn.algorithms import Mle
from searnn.bench.machine import peak_bytes
from searnn.bench.methods import OURS, PLAIN, OwnUpdate, TimedMethod, make_methods
from searnn.bench.settings import Setting, make_model, sizes_of
from searnn.bench.spans import breakdown
from searnn.bench.timing import Times, Watch, ratio
from searnn.training import TrainingSettings
from searnn.training.optimisation import make_optimizer
from searnn.types import Batch

Work = Callable[[Batch], object]


class Comparison:
    """What is measured of one setting, stage by stage; what is there can be reported at any time."""

    def __init__(self, setting: Setting, batches: Sequence[Batch], device: torch.device, rounds: int) -> None:
        self.setting, self.device, self.rounds = setting, device, rounds
        self.warm_up = 1 if device.type == "cpu" and rounds < 10 else 3  # on a GPU the second step is recorded
        self.sizes = sizes_of(setting, batches)
        self.batches = [batch.to(device) for batch in batches]
        self.model = make_model(setting).to(device).train()
        self.methods = make_methods(setting, self.model, self.batches)
        self.times = Times()
        self.breakdowns: dict[str, list[dict[str, float]]] = {}
        self.peaks: dict[str, int | None] = {}

    def pretrain(self, updates: int, draw: Callable[[int], Batch], watch: Watch) -> None:
        """Train by maximum likelihood, so that outputs end where those of a trained model do."""
        watch.stage(f"{self.setting.name}: training", updates)
        optimizer = make_optimizer(TrainingSettings(optimizer="adam", lr=1e-3), self.model)
        trained = OwnUpdate(self.model, Mle(), optimizer)
        for number in range(updates):
            trained.step(draw(number).to(self.device))
            watch.advance()

    def time(self, watch: Watch, others: Mapping[str, Work] | None = None) -> None:
        """Every method's step in every round, and whatever `others` are timed beside them."""
        watch.stage(f"{self.setting.name}: timing", self.warm_up + self.rounds)
        works = {**{method.name: method.step for method in self.methods}, **(others or {})}
        self.times.take(works, self.batches, self.rounds, self.warm_up, self.device, watch.advance)

    def take_apart(self, watch: Watch) -> None:
        """Every step with each batch under the profiler, apart from the times, which it would disturb."""
        passes = max(1, self.rounds // (2 * len(self.batches)))
        watch.stage(f"{self.setting.name}: taking apart", passes * len(self.batches))
        for batch in passes * self.batches:
            for method in self._not_recorded():
                found = breakdown(partial(method.step, batch), self.device)
                if found is not None:
                    self.breakdowns.setdefault(method.name, []).append(found)
            watch.advance()

    def weigh(self, watch: Watch) -> None:
        """The memory of every step, but for those that took theirs when they were recorded."""
        weighed = self._not_recorded()
        watch.stage(f"{self.setting.name}: memory", len(weighed))
        for method in weighed:
            self.peaks[method.name] = peak_bytes(partial(method.step, self.batches[0]), self.device)
            watch.advance()

    def report(self) -> dict[str, Any]:
        """All that is known so far."""
        return {
            "name": self.setting.name,
            "data": self.setting.data,
            "sizes": self.sizes,
            "batches": len(self.batches),
            "rows": [{"name": method.name, **method.about, **self._found(method.name)} for method in self.methods],
        }

    def _not_recorded(self) -> list[TimedMethod]:
        return [method for method in self.methods if not method.recorded]

    def _found(self, name: str) -> dict[str, Any]:
        median = self.times.median(name)
        return {
            "ms": self.times.summary(name),
            "first_ms": self.times.first.get(name),
            "x_plain_mle": ratio(median, self.times.median(PLAIN)),
            "x_mle": ratio(median, self.times.median(OURS)),
            "breakdown_ms": self._breakdown(name),
            "peak_bytes": self.peaks.get(name),
        }

    def _breakdown(self, name: str) -> dict[str, float] | None:
        """The phases of the run in the middle, so that they add up to a step that took place."""
        ordered = sorted(self.breakdowns.get(name, []), key=lambda phases: sum(phases.values()))
        if not ordered:
            return None
        middle = ordered[(len(ordered) - 1) // 2]
        return {**middle, "total": sum(middle.values())}
