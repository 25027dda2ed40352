"""Several methods, or one with several seeds, trained with the same budget and set side by side in one table."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn.config import from_flags, resolve
from searnn.config.registry import flag
from searnn.config.resolving import given_settings
from searnn.interfaces import Signed, Task
from searnn.jobs.display import run_jobs, wide_console
from searnn.jobs.methods import Method, checked, finished, make_jobs, own_settings
from searnn.reports.comparison import Result, cost_rows, draw_comparison, rows, turned, write_comparison
from searnn.reports.paired import compare_pairs
from searnn.reports.rendering import for_terminal
from searnn.runs.folders import SETTINGS, new_folder
from searnn.tasks.common.splits import judged_on
from searnn.types import SearnnError


def methods_of(task: str, texts: Iterable[str], given: Mapping[str, Any], seed: int) -> list[Method]:
    """The methods that texts name, with their complete settings; what none of them takes is refused."""
    common = {name: value for name, value in given.items() if value is not None}
    if all(common.get(name, "none") != "none" for name in ("steps", "minutes")):
        raise SearnnError("--steps and --minutes are two budgets: give one of them")
    items = [item.strip() for text in texts for item in text.split(",")]
    methods, used = [], set()
    for item in items:
        own = own_settings(task, _words(item))
        config = resolve(
            from_flags({**common, **own, "name": task, "seed": str(seed)}), optional=set(common) - set(own)
        )
        used |= set(given_settings(config))
        methods.append(Method(item, config))
    if unused := [name for name in common if name not in used]:
        raise SearnnError(f"{flag(unused[0])} does not apply to any of {', '.join(items)}: leave it out")
    if twice := [item for number, item in enumerate(items) if item in items[:number]]:
        raise SearnnError(f"--algorithms has {twice[0]!r} twice: give it once")
    for name in ("steps", "minutes", "patience", "metric"):
        found = {str(method.config.flat()[name]): method.label for method in methods}
        if len(found) > 1:
            told = " and ".join(f"{value} ({label})" for value, label in list(found.items())[:2])
            raise SearnnError(f"{flag(name)} must be the same for all, got {told}: give it outside of --algorithms")
    return methods


def _words(item: str) -> list[str]:
    """The algorithm of an item such as `searnn --loss ll`, and its flags."""
    with suppress(ValueError):  # a quotation that does not end
        if words := shlex.split(item):
            return words
    raise SearnnError(f"--algorithms has {item!r}: expected names, each with settings if need be")


def compare(
    methods: list[Method],
    seeds: range,
    folder: Path | None,
    command: str,
    *,
    beam: int = 1,
    length_penalty: float = 1.0,
    at_once: int | None = None,
    given_by: str = "--out",
) -> int:
    """Train by all methods with all seeds, measure all, and show what came out; the exit status.

    `folder` is that of the runs, which the flag `given_by` gives; without one it is one that is free.
    """
    if folder is not None and (folder / SETTINGS).is_file():
        raise SearnnError(f"{folder} holds a single run: give another folder with {given_by}")
    console = wide_console()
    task = checked(methods, console)
    out = new_folder(folder, methods[0].config)
    jobs = make_jobs(methods, seeds, out, beam, given_by, length_penalty)
    where = "" if given_by == "--out" else f" with {given_by} {shlex.quote(str(out))}"
    tally = run_jobs(console, jobs, at_once, out, again=f"give the same command{where} to go on")
    if tally.interrupted:
        return 130
    in_order = [job for method in methods for job in jobs if job.label == method.label]
    results = finished(in_order, task.metric)
    if results:
        _tell(console, results, methods, task, out, command=command, failed=tally.reasons())
    else:
        console.print("nothing to compare: no run has come to its end", highlight=False)
    return 1 if tally.failed else 0


def _tell(
    console: Console, results: Sequence[Result], methods: Sequence[Method], task: Task, out: Path, **more: Any
) -> None:
    """The table, the record, which says more besides, and the picture."""
    base = next((method.label for method in methods if method.config.method.algorithm == "mle"), None)
    limits = methods[0].config.optimisation
    budget = f"{limits.minutes} minutes" if limits.minutes != "none" else f"{limits.steps} updates"
    title = f"{task.name}: {budget} each, best model by validation {task.metric}; mean (lowest to highest)"
    reached = rows(results, task.metric, base)
    whole = for_terminal(reached, title)
    tall = console.measure(whole, options=console.options.update(width=10_000)).maximum > console.width
    console.print(for_terminal(turned(reached), title) if tall else whole)
    console.print(for_terminal(cost_rows(results, base), "what it took, mean over the seeds"))
    pairs = compare_pairs(results, base or methods[0].label, task.metric)
    for paired in pairs:
        console.print(str(paired), highlight=False, markup=False, soft_wrap=True)
    if judged_on(task) == "valid":
        console.print("there is no test data: test is measured on validation data, which also chose the models")
    for line in of_the_warm_up(results, methods):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    about = {
        "task": task.name,
        "metric": task.metric,
        "higher_is_better": task.higher_is_better,
        "signature": task.signature if isinstance(task, Signed) else None,
        "budget": {"steps": limits.steps, "minutes": limits.minutes, "patience": limits.patience},
        "settings": {method.label: method.config.model_dump(exclude_none=True) for method in methods},
        "paired": [asdict(paired) for paired in pairs],
        **more,
    }
    write_comparison(out / "comparison.json", about, results, base)
    try:
        draw_comparison(results, out / "comparison.png", task.metric, f"{task.name}, {budget} each")
    except SearnnError as error:  # without matplotlib
        console.print(f"no picture: {error}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"all numbers: {out / 'comparison.json'}, picture: {out / 'comparison.png'}", highlight=False)


def of_the_warm_up(results: Sequence[Result], methods: Sequence[Method]) -> Iterator[str]:
    """What is to be said of methods whose numbers are those of their warm-up by maximum likelihood."""
    for method in methods:
        first, own = method.config.optimisation.warm_up or 0, [one for one in results if one.label == method.label]
        if [one for one in own if one.steps <= first]:
            yield f"{method.label}: some or all runs ended in the warm-up of {first} updates; give fewer with --warm-up"
        elif own and all(one.best_step <= first for one in own):
            yield f"{method.label}: the best models are those of the warm-up ({first} updates by maximum likelihood)"
