"""Everything that can be said of a run, and of several side by side."""

from __future__ import annotations

from collections.abc import Sequence

from searnn.reports.doctor import costs, course, written
from searnn.reports.doctor.findings import Finding
from searnn.reports.outputs import Outputs
from searnn.reports.recorded import Recorded


def examine(run: Recorded, outputs: Outputs | None = None) -> list[Finding]:
    """Everything that is off, the warnings first; `outputs` are those of its best model, where they are known."""
    found = [check(run) for check in (*course.CHECKS, *costs.CHECKS)]
    if outputs is not None and len(outputs.written) >= written.ENOUGH:
        found += [check(outputs, run) for check in written.CHECKS]
    return sorted(filter(None, found), key=lambda finding: finding.level != "warning")


def compare(groups: Sequence[tuple[str, Sequence[float]]], higher_is_better: bool) -> list[Finding]:
    """What can be said of several settings, given the best metric of each of their runs."""
    found = []
    few = [name for name, values in groups if len(values) < course.FEW]
    if few and len(groups) > 1:
        told = "One setting has" if len(few) == 1 else f"{len(few)} settings have"
        found.append(Finding(
            "few-seeds", "note", f"{told} fewer than three runs",
            "From seed to seed results differ, often by more than one setting from another.",
            "Train each with at least three seeds (--seed 0, 1, 2) before you believe a difference.",
        ))  # fmt: skip
    known = [group for group in groups if group[1]]
    ranked = sorted(known, key=lambda group: sum(group[1]) / len(group[1]), reverse=higher_is_better)
    if len(ranked) > 1:
        (first, ours), (second, theirs) = ranked[:2]
        overlap = min(ours) <= max(theirs) if higher_is_better else max(ours) >= min(theirs)
        if overlap and min(len(ours), len(theirs)) > 1:
            found.append(Finding(
                "overlap", "note", f"\u201c{first}\u201d and \u201c{second}\u201d cannot be told apart",
                "Their means differ, but the ranges of their runs overlap.", "More seeds would tell.",
            ))  # fmt: skip
    return found
