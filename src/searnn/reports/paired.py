"""Whether one method is better than another on the same examples, or luck: their predictions drawn anew in pairs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from searnn import rng, sealed
from searnn.reports.bootstrap import REPEATS, draw, estimate
from searnn.reports.comparison import Result, way_of

PREDICTIONS = "predictions.tsv"  # of a run, on what it was tested on
OF_LINES = ("wer", "sequence_error", "exact")  # count examples that are wrong, the other metrics edits


@dataclass(frozen=True)
class Paired:
    """The mean difference of an example's errors between two methods, with its interval and how likely luck is."""

    label: str
    base: str
    what: str
    difference: float
    low: float
    high: float
    p: float
    examples: int

    def __str__(self) -> str:
        around = f"{100 * self.low:+.3g} to {100 * self.high:+.3g}"
        told = f"{100 * self.difference:+.3g} ({around}) {self.what} in 100 examples, p = {self.p:.2g}"
        return f"{self.label} against {self.base}: {told}, paired bootstrap of {self.examples} examples"


def compare_pairs(results: Sequence[Result], base: str, metric: str) -> list[Paired]:
    """Every other method against `base`, over the seeds that both have; none where predictions are not at hand."""
    errors = {label: _errors(results, label, metric in OF_LINES) for label in dict.fromkeys(r.label for r in results)}
    found = []
    for label, own in errors.items():
        seeds = sorted(set(own) & set(errors[base]))
        if label != base and seeds and len({len(run[seed]) for run in (own, errors[base]) for seed in seeds}) == 1:
            difference = torch.stack([own[seed] - errors[base][seed] for seed in seeds]).mean(0)
            found.append(_paired(label, base, difference, "wrong" if metric in OF_LINES else "edits"))
    return found


def _paired(label: str, base: str, difference: Float[Tensor, "B"], what: str) -> Paired:
    """The mean of the differences, and of draws of them with replacement."""
    rows = draw(len(difference), REPEATS, rng.generator(0, "paired", label))
    means = difference[rows].mean(1)
    around = estimate(float(difference.mean()), means)
    return Paired(label, base, what, around.value, around.low, around.high, chance(means), len(difference))


def chance(means: Float[Tensor, "N"]) -> float:
    """How likely luck is: twice the share of draws that lie on the other side of 0."""
    means = means.round(decimals=9)  # a draw that is level must not lie on either side by the rounding of its parts
    beyond = min(int((means <= 0).sum()), int((means >= 0).sum()))
    return min(1.0, 2 * (beyond + 1) / (REPEATS + 1))


def _errors(results: Sequence[Result], label: str, whole: bool) -> Mapping[int, Float[Tensor, "B"]]:
    """The errors of every example in their order, by seed, of the runs whose predictions are there."""
    found = {}
    for result in results:
        if result.label == label and "" in (errors := edits(Path(result.folder))):
            found[result.seed] = (errors[""] > 0).double() if whole else errors[""]
    return found


def edits(folder: Path) -> dict[str, Float[Tensor, "B"]]:
    """The edits of every example by each way of decoding, greedy is ""; none where no predictions are there.

    What the file holds was compared with its checksum, which stands in the run's record.
    """
    path = folder / PREDICTIONS
    if not path.is_file():
        return {}
    first, *lines = sealed.read_bytes(path, sys.maxsize).decode().removesuffix("\n").split("\n")
    places = {way_of(name): at for at, name in enumerate(first.split("\t")) if name.split(", ")[0] == "edits"}
    rows = [line.split("\t") for line in lines]
    return {way: torch.tensor([int(row[at]) for row in rows], dtype=torch.float64) for way, at in places.items()}
