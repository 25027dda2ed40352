"""Several runs side by side: which settings differ, and what each group of runs that differ by their seed comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from searnn.reports.recorded import Recorded

APART = ("seed", "device", "threads", "tensorboard")  # settings that do not make another method of a run
BARE = ("algorithm", "loss")  # of which the value alone says what it is
NAMED = ("algorithm", "loss", "roll_in", "roll_out", "cost")  # what a group is called by, before anything else
UNSET = "\u2013"


def differing(runs: Sequence[Recorded]) -> list[str]:
    """The settings, apart from the seed and the machine, that are not the same in all runs."""
    names = dict.fromkeys(name for run in runs for name in run.flat if name not in APART)
    return [name for name in names if len({repr(run.setting(name)) for run in runs}) > 1]


def grouped(runs: Sequence[Recorded]) -> list[list[int]]:
    """The runs with the same settings apart from the seed, in the order of the first of each."""
    groups: dict[str, list[int]] = {}
    for number, run in enumerate(runs):
        # A run without settings stands for itself: nothing says that it is like another.
        key = repr([(name, value) for name, value in sorted(run.flat.items()) if name not in APART])
        groups.setdefault(key if run.settings else f"#{number}", []).append(number)
    return list(groups.values())


def labels(runs: Sequence[Recorded], groups: Sequence[Sequence[int]]) -> list[str]:
    """A short name for each group: the settings that tell it from the others, else the run's own name."""
    names = differing(runs)
    found = ["" for _ in groups]
    for name in sorted(names, key=lambda name: NAMED.index(name) if name in NAMED else len(NAMED)):
        values = [shown(runs[group[0]].setting(name)) for group in groups]
        # A setting is named where it tells apart what still has the same name.
        if len(set(zip(found, values, strict=True))) > len(set(found)):
            word = "" if name in BARE else f"{name.replace('_', '-')} "
            found = [
                label if value == UNSET else f"{label} {word}{value}".strip()
                for label, value in zip(found, values, strict=True)
            ]
    own = [runs[group[0]].name for group in groups]
    return [label if label and found.count(label) == 1 else name for label, name in zip(found, own, strict=True)]


def shown(value: Any) -> str:
    """A setting as text."""
    if value is None:
        return UNSET
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
