"""The headroom of a run: what was measured of its model, put into parts, a forecast and words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from searnn.interfaces import Cost, Task
from searnn.reports.headroom import words
from searnn.reports.headroom.forecast import forecast, lacking
from searnn.reports.headroom.measuring import Plan, measure
from searnn.reports.headroom.records import Headroom

MLE = "mle"


def headroom(
    model: Any,
    task: Task,
    cost: Cost,
    plan: Plan,
    *,
    run: str,
    step: int,
    settings: Mapping[str, Any],
    tell: Callable[[str], None],
) -> Headroom:
    """Measure a run's model of update `step`; `settings` are those of the run by their names."""
    judged, train = measure(model, task, cost, plan, settings["batch_size"], tell)
    algorithm = str(settings["algorithm"])
    greedy, best = judged.ways["greedy"].metric, judged.ways["best"].metric
    lacks = lacking(greedy.value, judged.perfect)
    ambiguity = min(1.0, max(0.0, judged.ways["mbr"].gain.value / lacks))
    unknown = min(1.0 - ambiguity, lacking(best.value, judged.perfect) / lacks)
    choice = 1.0 - ambiguity - unknown
    expected = None
    if algorithm == MLE:
        expected = forecast(judged.ways["mbr"].gain.value, greedy, lacks, judged.prefixes.following)
        change = expected.gain if task.higher_is_better else -expected.gain
        advice = words.unused(settings)
        told = " ".join([words.expected(expected, task.metric, greedy, change), *advice])
    else:
        told = words.refused(algorithm)
    return Headroom(
        run=run,
        task=task.name,
        algorithm=algorithm,
        metric=task.metric,
        higher_is_better=task.higher_is_better,
        step=step,
        split=plan.split,
        examples=judged.prefixes.examples,
        samples=plan.samples,
        temperature=judged.temperature,
        beam=plan.beam,
        seed=plan.seed,
        perfect=judged.perfect,
        greedy=greedy,
        beamed=judged.ways["beamed"],
        mbr=judged.ways["mbr"],
        best=judged.ways["best"],
        ambiguity=ambiguity,
        choice=choice,
        unknown=unknown,
        spared=judged.spared,
        judged=judged.prefixes,
        train=train.prefixes,
        forecast=expected,
        words=(
            told,
            words.shares(ambiguity, choice, unknown, judged.spared, lacks, plan.samples),
            words.visibility(judged.prefixes, train.prefixes, plan.split),
            words.exposed(judged.prefixes),
        ),
    )
