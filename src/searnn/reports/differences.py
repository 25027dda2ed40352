"""The methods of a table against its first one on the same examples, by every way of decoding: a paired bootstrap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from searnn import rng
from searnn.reports.bootstrap import REPEATS, draw, estimate
from searnn.reports.comparison import by_way
from searnn.reports.entries import TableEntry
from searnn.reports.paired import OF_LINES, chance, edits

Place = tuple[str, bool]  # the way of decoding, greedy is "", and whether it is the ensemble's
Errors = Mapping[Place, Mapping[int, Float[Tensor, "B"]]]  # by seed; an ensemble's by 0


@dataclass(frozen=True)
class Difference:
    """What a method has more than another in a row or in the mean of several, with its interval and its chance."""

    row: str
    column: str
    base: str
    metric: str
    way: str
    ensemble: bool
    value: float
    low: float
    high: float
    p: float


def differences(
    entries: Sequence[TableEntry], metric: str, scale: float, groups: Mapping[str, Sequence[str]]
) -> list[Difference]:
    """All columns against the first, in each row and in the mean of each group of rows, as far as both have numbers."""
    columns = list(dict.fromkeys(entry.column for entry in entries))
    errors = {(entry.row, entry.column): _errors(entry, metric, scale) for entry in entries}
    found = []
    for column in columns[1:]:
        names = (column, columns[0], metric)
        rows = {
            row: _drawn(row, own, errors[row, columns[0]])
            for (row, its), own in errors.items()
            if its == column and (row, columns[0]) in errors
        }
        for row, places in rows.items():
            found += [_difference(row, names, place, *drawn) for place, drawn in places.items()]
        for group, members in groups.items():
            of_rows = [rows.get(row, {}) for row in members]
            for place in of_rows[0]:
                if all(place in drawn for drawn in of_rows):
                    values, means = zip(*(drawn[place] for drawn in of_rows), strict=True)
                    found.append(
                        _difference(group, names, place, sum(values) / len(values), torch.stack(means).mean(0))
                    )
    return found


def _difference(
    row: str, names: tuple[str, str, str], place: Place, value: float, means: Float[Tensor, "N"]
) -> Difference:
    around = estimate(value, means)
    return Difference(row, *names, *place, around.value, around.low, around.high, chance(means))


def _drawn(row: str, own: Errors, base: Errors) -> dict[Place, tuple[float, Float[Tensor, "N"]]]:
    """The mean difference by place, over the seeds that both have, and what it is on draws of the examples."""
    apart: dict[Place, Tensor] = {}
    for place in own:
        shared = [(ours, base[place][seed]) for seed, ours in own[place].items() if seed in base.get(place, {})]
        if shared and len({len(errors) for pair in shared for errors in pair}) == 1:
            apart[place] = torch.stack([ours - theirs for ours, theirs in shared]).mean(0)
    if not apart:
        return {}
    stacked = torch.stack(list(apart.values()))  # [P, B]
    count = stacked.shape[1]
    rows = draw(count, REPEATS, rng.generator(0, "paired", row))
    weights = torch.zeros(REPEATS, count, dtype=torch.float64).scatter_add_(1, rows, torch.ones(rows.shape).double())
    means = stacked @ weights.T / count  # [P, N]
    return {place: (float(stacked[at].mean()), means[at]) for at, place in enumerate(apart)}


def _errors(entry: TableEntry, metric: str, scale: float) -> Errors:
    """The errors of every example, such that their mean is the metric, of every run and of the ensemble."""
    found: dict[Place, dict[int, Tensor]] = {}
    for ensemble, seed, folder, test in _tested(entry):
        for way, counted in edits(Path(folder)).items():
            if (value := test.get(by_way(metric, way))) is not None:
                errors = (counted > 0).double() if metric in OF_LINES else counted
                unit = scale * value / float(errors.mean()) if errors.any() else 0.0
                found.setdefault((way, ensemble), {})[seed] = unit * errors
    return found


def _tested(entry: TableEntry) -> Iterator[tuple[bool, int, str, Mapping[str, float]]]:
    """What was tested: whether it is the ensemble, the seed, the folder and the numbers."""
    for result in entry.results:
        yield False, result.seed, result.folder, result.test
    if entry.ensemble is not None:
        yield True, 0, entry.ensemble.folder, entry.ensemble.test
