"""What came out of several algorithms on one task: a table, a record for other programs, and a picture."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from searnn.files import write
from searnn.reports.curves import as_png, canvas, make_log
from searnn.reports.numbers import number
from searnn.sealed import text_of
from searnn.training import Record, checkpoints, read_records

Point = tuple[float, float, float]  # updates made, seconds spent, validation metric


@dataclass(frozen=True)
class Result:
    """One run of one method: its best model by the validation metric, and what it took."""

    label: str
    seed: int
    folder: str
    best_step: int
    valid: float
    test: dict[str, float]
    steps: int
    seconds: float
    seconds_per_step: float
    curve: list[Point]
    cpu_seconds: float | None = None  # of all threads; older runs have not counted them


@dataclass(frozen=True)
class Spread:
    """Mean, lowest and highest over the seeds."""

    mean: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} ({self.lowest:.4g} to {self.highest:.4g})"


def spread(values: Iterable[float]) -> Spread:
    """Of some numbers."""
    found = list(values)
    return Spread(fmean(found), min(found), max(found))


def slug(name: str) -> str:
    """A name that can be a file's or a folder's."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def by_way(name: str, way: str) -> str:
    """What a metric or a column of the test data is called, where outputs were decoded otherwise than greedily."""
    return f"{name}, {way}" if way else name


def way_of(name: str) -> str:
    """The way of decoding in such a name; none where it is greedy."""
    return name.partition(", ")[2]


def ways(metric: str, test: Iterable[str]) -> list[str]:
    """Those of the test's numbers that are this metric by other ways of decoding."""
    return [name for name in test if name.startswith(f"{metric}, ")]


def read_result(label: str, seed: int, folder: Path, metric: str, test: Mapping[str, float]) -> Result:
    """What a finished run has recorded, beside what was measured on the test data."""
    counters = checkpoints.read_meta(folder / "last")["counters"]
    records = read_records(folder / "metrics.jsonl")
    return Result(
        label=label,
        seed=seed,
        folder=str(folder),
        best_step=counters["best_step"],
        valid=counters["best_metric"],
        test=dict(test),
        steps=counters["step"],
        seconds=counters["seconds"],
        seconds_per_step=counters["training_seconds"] / max(counters["step"], 1),
        curve=curve(records, metric),
        cpu_seconds=counters["cpu_seconds"] or None,  # 0 where they were not counted
    )


def curve(records: Iterable[Record], metric: str) -> list[Point]:
    """The metric at each evaluation, without what was not finite."""
    points: list[Any] = [(record["step"], record.get("seconds"), record.get(f"valid_{metric}")) for record in records]
    return [point for point in points if None not in point]


def summary(results: Sequence[Result], unit: float | None) -> dict[str, Any]:
    """The numbers of one method; `unit` is MLE's time for an update, where it is known."""
    seconds = fmean(result.seconds_per_step for result in results)
    busy = [result.cpu_seconds for result in results if result.cpu_seconds is not None]
    return {
        "seeds": [result.seed for result in results],
        "valid": spread(result.valid for result in results),
        "test": {name: spread(result.test[name] for result in results) for name in results[0].test},
        "steps": fmean(result.steps for result in results),
        "seconds": fmean(result.seconds for result in results),
        "cpu_seconds": fmean(busy) if len(busy) == len(results) else None,
        "seconds_per_step": seconds,
        "times_mle": None if unit is None else seconds / unit,
    }


def rows(results: Sequence[Result], metric: str, base: str | None) -> list[dict[str, str]]:
    """What each method has reached, in the order in which they come: the metric that decides first, then the others."""
    table = []
    for label, numbers in summaries(results, base).items():
        test = numbers["test"]
        first = [metric, *ways(metric, test)]
        table.append(
            {
                "": label,
                "seeds": str(len(numbers["seeds"])),
                f"validation {metric}": str(numbers["valid"]),
                **{f"test {name}": str(test[name]) for name in (*first, *(name for name in test if name not in first))},
            }
        )
    return table


def cost_rows(results: Sequence[Result], base: str | None) -> list[dict[str, str]]:
    """What each method has taken; `base` is the label of MLE."""
    table = []
    for label, numbers in summaries(results, base).items():
        times, busy = numbers["times_mle"], numbers["cpu_seconds"]
        table.append(
            {
                "": label,
                "updates": f"{numbers['steps']:.0f}",
                "minutes": number(numbers["seconds"] / 60),
                "CPU seconds": "-" if busy is None else number(busy),
                "ms per update": number(1000 * numbers["seconds_per_step"]),
                "times MLE": "-" if times is None else f"{times:.3g}",
            }
        )
    return table


def turned(table: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The table with a column for each of its rows."""
    first, *names = table[0]
    return [{"": name, **{row[first]: row[name] for row in table}} for name in names]


def summaries(results: Sequence[Result], base: str | None) -> dict[str, dict[str, Any]]:
    """The numbers of every method by its label."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.label, []).append(result)
    times = {label: fmean(result.seconds_per_step for result in found) for label, found in groups.items()}
    unit = times.get(base) if base is not None else None
    return {label: summary(found, unit) for label, found in groups.items()}


def write_comparison(path: Path, about: Mapping[str, Any], results: Sequence[Result], base: str | None) -> None:
    """All numbers and curves as JSON, with what was compared."""
    write_record(path, {**about, "methods": summaries(results, base), "runs": results})


def write_record(path: Path, content: Mapping[str, Any]) -> None:
    """Numbers for other programs, as JSON with a checksum."""
    write(path, text_of(content, indent=1).encode())


def draw_comparison(results: Sequence[Result], path: Path, name: str, title: str, scale: float = 1.0) -> None:
    """A PNG with the validation metric against updates and against minutes: the mean, and the range over the seeds.

    `name` is what the metric is called there, `scale` what it is multiplied with.
    """
    figure = canvas((13, 5.5))
    left, right = figure.subplots(1, 2, sharey=True)
    labels = list(dict.fromkeys(result.label for result in results))
    for place, label in enumerate(labels):
        points = joined([result.curve for result in results if result.label == label])
        style = {"color": f"C{place % 10}", "linestyle": ("-", "--", ":")[place // 10 % 3]}
        style["marker"] = "o" if len(points) == 1 else ""  # there is no line
        values = [[scale * value for value in found] for _, _, found in points]
        for axes, across in ((left, [step for step, _, _ in points]), (right, [spent / 60 for _, spent, _ in points])):
            axes.plot(across, [fmean(found) for found in values], label=label, **style)
            low, high = [min(found) for found in values], [max(found) for found in values]
            axes.fill_between(across, low, high, color=style["color"], alpha=0.12, linewidth=0)
    for axes, below in ((left, "updates"), (right, "minutes of training")):
        axes.set(xlabel=below, ylabel=f"validation {name}" if axes is left else "")
        axes.grid(visible=True, alpha=0.3)
    if all(value > 0 for result in results for _, _, value in result.curve):
        make_log(left)
    figure.suptitle(title)
    figure.legend(*left.get_legend_handles_labels(), loc="outside right center")
    write(path, as_png(figure))


def joined(curves: Sequence[Sequence[Point]]) -> list[tuple[float, float, list[float]]]:
    """At each step that all curves have: the step, the mean of the seconds, and the metrics.

    Where time decided when to evaluate, they have few steps in common: then at each that any has, from where all have
    begun to where the first ends, and on the lines between their points.
    """
    by_step = [{step: (seconds, value) for step, seconds, value in curve} for curve in curves]
    steps = set.intersection(*(set(found) for found in by_step))
    if 2 * len(steps) < min(map(len, by_step)):
        first, last = max(map(min, by_step)), min(map(max, by_step))
        steps = {step for found in by_step for step in found if first <= step <= last}
    points = [[_between(curve, step) for curve in curves] for step in sorted(steps)]
    return [
        (step, fmean(seconds for seconds, _ in found), [value for _, value in found])
        for step, found in zip(sorted(steps), points, strict=True)
    ]


def _between(curve: Sequence[Point], step: float) -> tuple[float, float]:
    """The seconds and the metric at a step between a curve's first and last, on the line between its neighbours."""
    place = bisect_left(curve, step, key=lambda point: point[0])
    (low, *before), (high, *after) = curve[max(place - 1, 0)], curve[place]
    part = (step - low) / (high - low) if high > low else 1.0
    seconds, value = ((1 - part) * one + part * other for one, other in zip(before, after, strict=True))
    return seconds, value
