"""Which curves a report draws, what each means, and the numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from searnn.reports.comparison import curve, joined
from searnn.reports.recorded import NAMES, VALID, Recorded, in_words

POINTS = 1000  # of a curve, at most: more are not seen, and would make the page heavy
KNOWN: tuple[tuple[str, str, str, tuple[tuple[str, str], ...]], ...] = (
    ("loss", "Training loss", "What is differentiated, a mean since the evaluation before. Losses of different "
     "algorithms cannot be compared.", (("train_loss", "loss"),)),
    ("prefixes", "Loss on true and on own prefixes", "Nats per true token of validation data. The shaded gap is "
     "exposure bias: what the model loses when it must go on from its own mistakes.",
     (("teacher_forced_loss", "true prefixes"), ("free_running_loss", "own prefixes"))),
    ("spread", "Cost spread", "Dearest less cheapest candidate of a cell, a mean over cells. Where it is 0 there is "
     "nothing to learn.", (("cost_spread", "spread"),)),
    ("shares", "Flat cells, and cells where the truth is not cheapest", "Share of cells whose candidates all cost the "
     "same, and share in which another token than the true one is the cheapest.",
     (("equal_cost_share", "equal costs"), ("cheapest_not_true_share", "truth not cheapest"))),
    ("entropy", "Entropy", "Of the model's distribution on its own prefixes, in nats: 0 is sure, high is undecided.",
     (("entropy", "entropy"),)),
    ("gradient", "Gradient norm", "Before it is cut to --clip.", (("gradient_norm", "norm"),)),
    ("rate", "Learning rate", "What the schedule made of --lr.", (("learning_rate", "rate"),)),
    ("speed", "Speed", "Updates a second, evaluations not counted.", (("steps_per_second", "updates / s"),)),
)  # fmt: skip
ALONE = {"equal_cost_share": "Flat cells", "cheapest_not_true_share": "Cells where the truth is not cheapest"}
FIXED = ("step", "seconds", "signature", "exposure_gap")


def charts_of(runs: Sequence[Recorded]) -> list[dict[str, Any]]:
    """The charts for which at least one run has numbers: the metric first, then what is known, then the rest."""
    recorded = dict.fromkeys(name for run in runs for record in run.records for name in record)
    metrics = [name for name in recorded if name.startswith(VALID)]
    main = [VALID + metric for metric in dict.fromkeys(run.metric for run in runs) if metric is not None]
    charts = [_metric(name, runs, chosen=True) for name in main]
    charts += [_metric(name, runs, chosen=False) for name in metrics if name not in main]
    used = {*metrics, *FIXED}
    for ident, title, note, keys in KNOWN:
        there = [list(pair) for pair in keys if pair[0] in recorded]
        used |= {name for name, _ in keys}
        if len(runs) > 1:  # a line for each run: two of each would be a tangle
            if ident == "prefixes":
                there = [["exposure_gap", "gap"]] if "exposure_gap" in recorded else []
                title, note = "Exposure gap", "Loss on own prefixes less loss on true ones, in nats per token."
            charts += [_chart(f"{ident}-{key}", ALONE.get(key, title), note, [[key, label]]) for key, label in there]
        elif there:
            charts.append(_chart(ident, title, note, there))
    rest = [name for name in recorded if name not in used and any(run.values(name) for run in runs)]
    return charts + [
        _chart(f"own-{name}", in_words(name), "Recorded by the algorithm.", [[name, name]]) for name in rest
    ]


def curves_of(runs: Sequence[Recorded]) -> dict[str, list[float]]:
    """The metric at the steps that all runs of a group have: mean, lowest and highest, and their mean minutes."""
    points = joined([[] if run.metric is None else curve(run.records, run.metric) for run in runs])
    return {
        "step": [float(step) for step, _, _ in points],
        "minutes": [seconds / 60 for _, seconds, _ in points],
        "mean": [fmean(values) for _, _, values in points],
        "low": [min(values) for _, _, values in points],
        "high": [max(values) for _, _, values in points],
    }


def thinned(run: Recorded) -> dict[str, list[Any]]:
    """What was recorded, by name; of very many evaluations every n-th, the best and the last."""
    count, best = len(run.records), run.best
    every = -(-count // POINTS) if count else 1
    chosen = [
        record
        for number, record in enumerate(run.records)
        if number % every == 0 or number == count - 1 or (best is not None and record["step"] == best[0])
    ]
    names = dict.fromkeys(name for record in chosen for name in record)
    return {name: [record.get(name) for record in chosen] for name in names}


def _metric(name: str, runs: Sequence[Recorded], chosen: bool) -> dict[str, Any]:
    run = next(run for run in runs if run.metric is not None)
    note = "On validation data, by free decoding."
    if chosen:
        way = "higher" if run.higher_is_better else "lower"
        note = f"{note} {way.capitalize()} is better; it decides which model is kept."
    label = name.removeprefix(VALID)
    return _chart(
        name.replace("_", "-"),
        f"Validation {NAMES.get(label, label.replace('_', ' '))}",
        note,
        [[name, label]],
        metric=chosen,
    )


def _chart(ident: str, title: str, note: str, keys: list[list[str]], metric: bool = False) -> dict[str, Any]:
    return {"id": ident, "title": title, "note": note, "keys": keys, "metric": metric}
