"""A headroom in words and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from searnn.reports.bootstrap import Estimate
from searnn.reports.headroom.records import Forecast, Headroom, Prefixes
from searnn.reports.numbers import number, percent
from searnn.reports.rendering import TableRows

SPLITS = {"valid": "validation", "test": "test", "train": "training"}
BY_HEART = 0.3  # of the mistakes, as many as a search on training data sees or fewer


def shown(value: float) -> str:
    """A metric or a difference of it: `searnn eval` has as many digits."""
    return f"{value:z.4f}"


def expected(found: Forecast, metric: str, greedy: Estimate, gain: float) -> str:
    """The forecast as a sentence; `gain` is what the metric of greedy decoding would change by."""
    return (
        f"Expect about {shown(found.gain)} ({shown(found.low)} to {shown(found.high)}) from SEARNN: a greedy {metric} "
        f"of about {shown(greedy.value + gain)} in place of {shown(greedy.value)}."
    )


def unused(settings: Mapping[str, Any]) -> list[str]:
    """What would make maximum likelihood itself better, where the run does without."""
    ways = {
        "average": "average the weights (--average 0.999)",
        "label_smoothing": "smooth the labels (--label-smoothing 0.1)",
    }
    missing = " and ".join(told for name, told in ways.items() if not settings[name])
    return [f"First {missing}: it costs nothing, and often gives as much or more."] if missing else []


def refused(algorithm: str) -> str:
    """Why there is no forecast."""
    return (
        f"No forecast: this run was trained by {algorithm}, and what SEARNN gains is foretold from a run by maximum "
        "likelihood (--algorithm mle)."
    )


def shares(ambiguity: float, choice: float, unknown: float, spared: float, lacks: float, samples: int) -> str:
    """What greedy decoding lacks, by what could give it."""
    return (
        f"Of the {shown(lacks)} that greedy decoding lacks, {percent(ambiguity)} is ambiguity that the metric can "
        f"use: MBR gains it without training (the model itself expects {percent(spared)}). {percent(choice)} is in the "
        f"best of {samples} samples, but nobody could say which that is. {percent(unknown)} is in none of them: the "
        "model does not know it, and better settings, more data or an ensemble would help there."
    )


def seen(judged: Prefixes, train: Prefixes) -> float:
    """How much of the mistakes a search on the training data sees, from 0 to 1."""
    return min(1.0, train.visible / judged.visible) if judged.visible else 0.0


def visibility(judged: Prefixes, train: Prefixes, split: str) -> str:
    """What a search on the training data sees."""
    sees = seen(judged, train)
    told = (
        f"A search has something to learn at {percent(train.visible, 1)} of the cells of training data, against "
        f"{percent(judged.visible, 1)} of {SPLITS[split]} data: it sees {percent(sees)} of the mistakes."
    )
    if sees > BY_HEART:
        return told
    return f"{told} The training data are known by heart: more dropout or more data would show it others."


def exposed(judged: Prefixes) -> str:
    """What the model does after its own prefixes."""
    return (
        f"The right token costs {number(judged.loss_on_true)} nats after true prefixes and "
        f"{number(judged.loss_on_own)} after its own. Until its first mistake the model errs at "
        f"{percent(judged.first, 1)} of the cells, after it at {percent(judged.later, 1)}, which is where "
        f"{percent(judged.following)} of its mistakes are; {percent(judged.exposure)} are not made on true prefixes "
        "(exposure)."
    )


def title(found: Headroom) -> str:
    """What was measured, in a line."""
    of = f"{found.examples} {SPLITS[found.split]} examples"
    return f"{found.run}: {found.metric} on {of}, the model of update {found.step:,}"


def ways(found: Headroom) -> TableRows:
    """A line for each way of decoding."""
    lines: Sequence[tuple[str, Estimate, Estimate | None]] = (
        ("greedy", found.greedy, None),
        (f"beam {found.beam}", found.beamed.metric, found.beamed.gain),
        (f"MBR of {found.samples} samples", found.mbr.metric, found.mbr.gain),
        (f"best of {found.samples} samples", found.best.metric, found.best.gain),
    )
    return [
        {"decoding": name, found.metric: str(metric), "better than greedy by": "" if gain is None else str(gain)}
        for name, metric, gain in lines
    ]


def sides(found: Headroom) -> TableRows:
    """What the model does on the split beside the training data."""
    columns = {SPLITS[found.split]: found.judged, SPLITS["train"]: found.train}
    lines: dict[str, Callable[[Prefixes], str]] = {
        f"greedy {found.metric}": lambda side: shown(side.metric),
        "cells with a mistake": lambda side: percent(side.visible, 1),
        "the same on true prefixes": lambda side: percent(side.mistakes_on_true, 1),
        "until the first mistake": lambda side: percent(side.first, 1),
        "after it": lambda side: percent(side.later, 1),
        "loss on true prefixes": lambda side: f"{side.loss_on_true:.3f}",
        "loss on own prefixes": lambda side: f"{side.loss_on_own:.3f}",
        "entropy": lambda side: f"{side.entropy:.3f}",
    }
    return [{"": name, **{column: told(side) for column, side in columns.items()}} for name, told in lines.items()]
