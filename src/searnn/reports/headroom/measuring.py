"""Measuring what a trained model holds, on examples from all over a split and on examples of training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from searnn.data import sharding
from searnn.decoding import decode, decode_beam, least_cost, least_risk, pairwise_costs, sample
from searnn.interfaces import Cost, Task
from searnn.reports.bootstrap import bootstrap, estimate
from searnn.reports.headroom.prefixes import COUNTS, along
from searnn.reports.headroom.records import Prefixes, Way
from searnn.reports.headroom.temperature import fitting
from searnn.rng import generator
from searnn.sequences.ends import seal, strip
from searnn.training.evaluation import parts_of
from searnn.types import Batch, SearnnError

TOGETHER = 16  # examples of a batch: each is decoded in as many rows as there are samples
MOST = 2048  # examples, where nobody asks for another number
BUDGET = 3_000_000  # cells that all samples together have, likewise: about a minute on two cores
HEAVY = 500  # output tokens that make a cell twice as dear
AGAINST = 16  # samples that outputs are judged against in place of the truth
FEWEST = 128  # examples, whatever the budget
SPLITS = ("valid", "test")
WAYS = ("greedy", "beamed", "mbr", "best")


@dataclass(frozen=True)
class Plan:
    """How much is decoded; without a number of `examples` what takes about a minute."""

    split: str = "valid"
    examples: int | None = None
    samples: int = 64
    beam: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.split not in SPLITS:
            raise SearnnError(f"split is {self.split!r}, it must be {' or '.join(SPLITS)}")
        given = {"samples": self.samples, "beam": self.beam, "examples": self.examples}
        for name, value in given.items():
            if value is not None and value < 1:
                raise SearnnError(f"{name} is {value}, it must be at least 1")


@dataclass(frozen=True)
class Found:
    """What was measured on a split: ways of decoding with their gains over greedy, and what was done along prefixes."""

    temperature: float
    ways: dict[str, Way]
    perfect: float
    spared: float
    prefixes: Prefixes


def measure(
    model: Any, task: Task, cost: Cost, plan: Plan, batch_size: int, tell: Callable[[str], None]
) -> tuple[Found, Found]:
    """What the model does with examples of the split, and of the training data as they come in training."""
    judged, train = _batches(task, plan, batch_size)
    temperature = fitting(model, (part for batch in judged for part in parts_of(model, batch, 1)))
    parts = (
        _measured(model, task, cost, plan, name, ways, temperature, batches, tell)
        for name, ways, batches in ((plan.split, WAYS, judged), ("training", WAYS[:1], train))
    )
    return next(parts), next(parts)


def _batches(task: Task, plan: Plan, batch_size: int) -> Iterator[list[Batch]]:
    """Examples of the split from all over its lengths, and then about as many of training."""

    def batches() -> Iterable[Batch]:
        return task.test(TOGETHER) if plan.split == "test" else task.valid(TOGETHER)

    sizes = [(len(batch.targets), int((batch.targets != task.vocab.pad).sum())) for batch in batches()]
    if not sizes:
        raise SearnnError(f"there is nothing to measure: the {plan.split} data of {task.name} has no examples")
    wanted = plan.examples
    if wanted is None:
        total, cells = map(sum, zip(*sizes, strict=True))
        affordable = BUDGET / (1 + task.vocab.size / HEAVY) * total / (plan.samples * cells)
        wanted = min(MOST, max(FEWEST, int(affordable)))
    number = min(len(sizes), -(-wanted // TOGETHER))
    offset = float(torch.rand((), generator=generator(plan.seed, "headroom", plan.split)))
    chosen = {int((place + offset) * len(sizes) / number) for place in range(number)}
    yield [batch for place, batch in enumerate(batches()) if place in chosen]
    data = task.train(batch_size, plan.seed)
    several = min(data.steps_per_epoch, max(number, -(-wanted // batch_size)))
    each = min(batch_size, -(-wanted // several))
    rows = torch.arange(each) * batch_size // each
    yield [sharding.take(data.batch(step), rows) for step in range(several)]


def _measured(
    model: nn.Module,
    task: Task,
    cost: Cost,
    plan: Plan,
    name: str,
    ways: Iterable[str],
    temperature: float,
    batches: list[Batch],
    tell: Callable[[str], None],
) -> Found:
    stepper: Any = model
    rng = generator(plan.seed, "headroom", "samples")
    outputs: dict[str, list[list[int]]] = {way: [] for way in ways}
    targets: list[list[int]] = []
    risks = torch.zeros(2, dtype=torch.float64)  # of the greedy output and of that of MBR, by the model's own lights
    on_true, on_own = dict.fromkeys(COUNTS, 0.0), dict.fromkeys(COUNTS, 0.0)
    for part in (part for batch in batches for part in parts_of(model, batch, plan.samples)):
        tell(f"{name} examples: {len(targets)}")
        greedy = decode(stepper, part)
        written = {"greedy": greedy}
        if "mbr" in outputs:
            beams, _ = decode_beam(stepper, part, width=plan.beam)
            drawn = sample(stepper, part, count=plan.samples, temperature=temperature, rng=rng)
            known = torch.cat([greedy.unsqueeze(1), beams], dim=1)
            by_risk = least_risk(drawn, cost, also=known)
            written |= {"beamed": beams[:, 0], "mbr": by_risk, "best": least_cost(drawn, part.targets, cost)}
            # those that it was chosen by would flatter it
            others = sample(stepper, part, count=AGAINST, temperature=temperature, rng=rng)
            risks += pairwise_costs(torch.stack([greedy, by_risk], dim=1), others, cost).mean(-1).sum(0).cpu()
        for way, tokens in written.items():
            outputs[way] += strip(tokens, task.vocab)
        targets += strip(part.targets, task.vocab)
        truth = seal(part.targets, part.lengths, task.vocab)
        for total, prefix in ((on_true, truth), (on_own, greedy)):
            counts = along(stepper, part, prefix)
            total |= {name: total[name] + counts[name] for name in COUNTS}

    def metric(some: Any, truths: Any) -> float:
        return float(task.metrics(some, truths)[task.metric])

    tell(f"{name} examples: resampling")
    draws = bootstrap(metric, list(outputs.values()), targets, generator(plan.seed, "headroom", "bootstrap"))
    sign = 1 if task.higher_is_better else -1
    values = [metric(each, targets) for each in outputs.values()]
    found = {
        way: Way(estimate(value, drawn), estimate(sign * (value - values[0]) + 0.0, sign * (drawn - draws[0]) + 0.0))
        for way, value, drawn in zip(outputs, values, draws, strict=True)
    }
    prefixes = _prefixes(len(targets), values[0], on_true, on_own)
    spared = float(1 - risks[1] / risks[0]) if risks[0] > 0 else 0.0
    return Found(temperature, found, metric(targets, targets), spared, prefixes)


def _prefixes(examples: int, metric: float, true: dict[str, float], own: dict[str, float]) -> Prefixes:
    def share(counts: dict[str, float], some: str, of: str) -> float:
        return counts[some] / max(1, counts[of])

    made = own["mistakes"] - true["mistakes"]
    return Prefixes(
        examples=examples,
        metric=metric,
        mistakes_on_true=share(true, "mistakes", "cells"),
        visible=share(own, "mistakes", "cells"),
        first=share(own, "first_mistakes", "first_cells"),
        later=share(own, "later_mistakes", "later_cells"),
        following=share(own, "later_mistakes", "mistakes"),
        loss_on_true=share(true, "loss", "cells"),
        loss_on_own=share(own, "loss", "cells"),
        entropy=share(own, "entropy", "cells"),
        exposure=max(0.0, made / max(1, own["mistakes"])),
    )
