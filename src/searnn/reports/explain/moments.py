"""The checkpoints of a run, as the moments of its training that a page shows."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

from torch import nn

from searnn.reports.explain.searching import Moment
from searnn.training import checkpoints

MOST_MOMENTS = 12  # checkpoints in one page: each adds to its size


def moments_of(model: nn.Module, folder: Path) -> tuple[list[Moment], int, int]:
    """The models that the run kept, in the order of their steps; the number of the best; how many are left out."""
    paths = dict(checkpoints.kept(folder))
    marks: dict[int, list[str]] = {}
    for name in ("best", "last"):
        if checkpoints.exists(folder / name):
            _, meta = checkpoints.load(folder / name)
            step = int(meta["record"]["step"] if name == "best" else meta["counters"]["step"])
            marks.setdefault(step, []).append(name)
            paths[step] = folder / name
    steps = sorted(paths)
    if len(steps) > MOST_MOMENTS:
        free, others = MOST_MOMENTS - len(marks), [step for step in steps if step not in marks]
        spread = {others[place * (len(others) - 1) // (free - 1)] for place in range(free)}
        steps = sorted({*marks, *spread})
    moments = []
    for step in steps:
        own = deepcopy(model)
        checkpoints.load_model(paths[step], own)
        marked = f" ({' and '.join(marks[step])})" if step in marks else ""
        moments.append(Moment(f"step {step}{marked}", step, own.eval()))
    best = next(number for number, step in enumerate(steps) if "best" in marks.get(step, ()))
    return moments, best, len(paths) - len(steps)
