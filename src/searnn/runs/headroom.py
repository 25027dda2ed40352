"""The headroom of a run: measured with the cost that SEARNN would train on, and kept in the run's folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from searnn.config import trust
from searnn.config.building import make_cost
from searnn.reports.headroom import NAME, Headroom, Plan, headroom, keep
from searnn.types import SearnnError

if TYPE_CHECKING:
    from searnn.runs.run import Run


def headroom_of(run: Run, plan: Plan, tell: Callable[[str], None]) -> Headroom:
    """Measure the run and keep what was found."""
    if run.members:
        raise SearnnError(f"an ensemble of {len(run.members)} runs has no headroom: open one of them alone")
    config = run.settings_for("cost", trust.METRIC)
    found = headroom(
        run.model, run.task, make_cost(config, run.task), plan,
        run=str(run.folder), step=run.step, settings=config.flat(), tell=tell,
    )  # fmt: skip
    keep(found, run.folder / NAME)
    return found
