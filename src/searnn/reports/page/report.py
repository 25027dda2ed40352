"""The report as data and as a page: everything that is shown of one run or of several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from searnn.reports.doctor import Finding, compare, examine
from searnn.reports.headroom import words
from searnn.reports.html import asset, self_contained
from searnn.reports.outputs import Outputs
from searnn.reports.page.charts import charts_of, curves_of, thinned
from searnn.reports.page.groups import differing, grouped, labels, shown
from searnn.reports.recorded import Recorded

HERE = "searnn.reports.page"


def report(
    runs: Sequence[Recorded],
    outputs: Sequence[Outputs | None] | None = None,
    described: Mapping[str, Any] | None = None,
    *,
    missing: str | None = None,
    follow: str | None = None,
) -> dict[str, Any]:
    """Everything that the page shows, as JSON.

    `described` are the outputs of a single run as `examples.describe` gives them, `missing` says why there are none.
    `follow` says how the page stays new: "serve" fetches this JSON again, "watch" reads its own file again.
    """
    outputs = outputs or [None] * len(runs)
    groups = grouped(runs)
    several = len(runs) > 1
    data: dict[str, Any] = {
        "title": " and ".join([run.name for run in runs]) if len(runs) < 3 else f"{len(runs)} runs",
        "follow": follow,
        "metric": runs[0].metric,
        "higher": runs[0].higher_is_better,
        "runs": [_run(*each) for each in zip(runs, outputs, strict=True)],
        "charts": charts_of(runs),
        "headroom": None if several else _headroom(runs[0]),
        "examples": None if several else described,
        "missing": missing,
    }
    if several:
        names = labels(runs, groups)
        data |= {
            "groups": [_group(name, runs, group) for name, group in zip(names, groups, strict=True)],
            "differing": {
                "groups": list(names),
                "rows": [[name, [shown(runs[group[0]].setting(name)) for group in groups]] for name in differing(runs)],
            },
            "findings": [asdict(each) for each in _compared(runs, groups, names)],
        }
        for number, group in enumerate(groups):
            for at in group:
                data["runs"][at]["group"] = number
    return data


def page(data: Mapping[str, Any]) -> str:
    """The report as one HTML file."""
    return self_contained(
        f"{data['title']} \u00b7 SEARNN report",
        asset("report.html", HERE),
        data,
        styles=[asset("base.css"), asset("report.css", HERE)],
        scripts=[asset("elements.js"), *(asset(name, HERE) for name in ("charts.js", "examples.js", "report.js"))],
        live=data["follow"] == "serve",
    )


def _run(run: Recorded, outputs: Outputs | None) -> dict[str, Any]:
    best = run.best
    limits = {name: run.setting(name) for name in ("steps", "minutes")}
    return {
        "name": run.name,
        "task": run.setting("name"),
        "algorithm": run.setting("algorithm"),
        "seed": run.setting("seed"),
        "metric": run.metric,
        "best": None if best is None else {"step": best[0], "value": best[1]},
        "step": run.records[-1]["step"] if run.records else 0,
        "minutes": run.minutes,
        "limits": {name: value for name, value in limits.items() if isinstance(value, (int, float))},
        "tested": None if outputs is None else outputs.summary(),
        "columns": thinned(run),
        "settings": [
            [group, [[name, shown(value)] for name, value in values.items()]]
            for group, values in run.settings.items()
            if values
        ],
        "findings": [asdict(each) for each in examine(run, outputs)],
    }


def _headroom(run: Recorded) -> dict[str, Any] | None:
    """What `searnn headroom` has found of the run, as the page shows it."""
    found = run.headroom
    if found is None:
        return None
    return {
        "title": words.title(found),
        "words": list(found.words),
        "ways": words.ways(found),
        "sides": words.sides(found),
        "stale": run.best is not None and run.best[0] != found.step,
    }


def _group(name: str, runs: Sequence[Recorded], members: Sequence[int]) -> dict[str, Any]:
    own = [runs[at] for at in members]
    return {
        "name": name,
        "metric": own[0].metric,
        "higher": own[0].higher_is_better,
        "runs": list(members),
        "best": [best[1] for run in own if (best := run.best) is not None],
        "minutes": [run.minutes for run in own],
        "curves": curves_of(own),
    }


def _compared(runs: Sequence[Recorded], groups: Sequence[Sequence[int]], names: Sequence[str]) -> list[Finding]:
    if len(tasks := dict.fromkeys(str(run.setting("name")) for run in runs)) > 1:
        told = f"These runs are of different tasks: {', '.join(tasks)}"
        return [Finding("tasks", "note", told, "Their metrics cannot be compared.", "Report on one task at a time.")]
    if len({run.metric for run in runs}) > 1:
        return []
    found = [[best[1] for at in group if (best := runs[at].best) is not None] for group in groups]
    return compare(list(zip(names, found, strict=True)), runs[0].higher_is_better)
