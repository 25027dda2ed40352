"""`searnn compare TASK`: several algorithms with the same budget and several seeds, side by side, in one table."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn.config import flags, from_flags, resolve
from searnn.config.parser import count, whole
from searnn.config.registry import AXES, flag
from searnn.config.resolving import given_settings
from searnn.interfaces import Task
from searnn.jobs.planning import APART, Entry, checked, finished, make_jobs, own_settings
from searnn.jobs.running import run_jobs, wide_console
from searnn.reports.comparison import Result, draw_comparison, rows, write_comparison
from searnn.reports.rendering import for_terminal
from searnn.types import SearnnError

NOTES = (
    "An algorithm may carry settings of its own, as in --algorithms 'mle,searnn,searnn --loss ll --roll-in reference'. "
    "The other settings, which are those of searnn train, go to all algorithms that take them. All runs have the same "
    "budget: --steps or --minutes, else the steps of the task's recipe. The same command again goes on with what is "
    "not finished."
)


def add(commands: Any) -> None:
    """Add the command's parser: one for each task, since the defaults are the task's."""
    text = "train by several algorithms and compare them"
    parser = commands.add_parser("compare", help=text, description=text.capitalize() + ".")
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    for name, task in AXES["task"].items():
        about = (task.__doc__ or "").split(";")[0].split("\n")[0].rstrip(".")
        usage = f"searnn compare {name} --algorithms NAME,NAME,... [settings]"
        one = tasks.add_parser(name, help=about, usage=usage, description=f"{about}.", epilog=NOTES)
        box = one.add_argument_group("comparison")
        told = "what is compared, e.g. mle,searnn,'searnn --loss ll'"
        box.add_argument("--algorithms", metavar="NAME", nargs="+", required=True, help=told)
        box.add_argument("--seeds", metavar="N", type=count, default=3, help="runs of each algorithm [3]")
        box.add_argument("--first-seed", metavar="N", type=whole, default=0, help="seed of the first of them [0]")
        box.add_argument("--beam", metavar="N", type=count, default=1, help="test with a beam of N, too")
        box.add_argument("--jobs", metavar="N", type=count, help="runs at a time [as many as there are CPU cores]")
        box.add_argument("--out", metavar="FOLDER", type=Path, help=f"folder of the runs [runs/compare-{name}]")
        one.fill = partial(flags.add_settings, one, name, without=APART)
        one.set_defaults(command=run, parser=one, task=name)


def run(arguments: argparse.Namespace) -> int:
    """Train all, measure all, and show what came out."""
    console = wide_console()
    entries = plan(arguments.task, arguments.algorithms, flags.given(arguments), arguments.first_seed)
    task = checked(entries, console)
    out = arguments.out or Path("runs", f"compare-{arguments.task}")
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    jobs = make_jobs(entries, seeds, out, arguments.beam)
    standing = run_jobs(console, jobs, arguments.jobs, out)
    if standing.interrupted:
        return 130
    in_order = [job for entry in entries for job in jobs if job.label == entry.label]
    tell(console, finished(in_order, task.metric), entries, arguments, task, out, standing.reasons())
    return 1 if standing.failed else 0


def plan(task: str, texts: Iterable[str], given: dict[str, Any], seed: int) -> list[Entry]:
    """The methods with their complete settings; what none of them takes is refused."""
    common = {name: value for name, value in given.items() if value is not None}
    if all(common.get(name, "none") != "none" for name in ("steps", "minutes")):
        raise SearnnError("--steps and --minutes are two budgets: give one of them")
    items = [item.strip() for text in texts for item in text.split(",")]
    entries, used = [], set()
    for item in items:
        own = own_settings(task, words_of(item))
        settings = from_flags({**common, **own, "name": task, "seed": str(seed)})
        config = resolve(settings, optional=set(common) - set(own))
        used |= set(given_settings(config))
        entries.append(Entry(item, config))
    if unused := [name for name in common if name not in used]:
        raise SearnnError(f"{flag(unused[0])} does not apply to any of {', '.join(items)}: leave it out")
    if twice := [item for number, item in enumerate(items) if item in items[:number]]:
        raise SearnnError(f"--algorithms has {twice[0]!r} twice: give it once")
    for name in ("steps", "minutes", "patience", "metric"):
        found = {str(entry.config.flat()[name]): entry.label for entry in entries}
        if len(found) > 1:
            told = " and ".join(f"{value} ({label})" for value, label in list(found.items())[:2])
            raise SearnnError(f"{flag(name)} must be the same for all, got {told}: give it outside of --algorithms")
    return entries


def words_of(item: str) -> list[str]:
    """The algorithm of an item such as `searnn --loss ll`, and its flags."""
    with suppress(ValueError):  # a quotation that does not end
        if words := shlex.split(item):
            return words
    raise SearnnError(f"--algorithms has {item!r}: expected names, each with settings if need be")


def of_the_warm_up(results: Sequence[Result], entries: Sequence[Entry]) -> Iterator[str]:
    """What is to be said of methods whose numbers are those of their warm-up by maximum likelihood."""
    for entry in entries:
        first, own = entry.config.optimisation.warm_up or 0, [one for one in results if one.label == entry.label]
        if [one for one in own if one.steps <= first]:
            yield f"{entry.label}: some or all runs ended in the warm-up of {first} updates; give fewer with --warm-up"
        elif own and all(one.best_step <= first for one in own):
            yield f"{entry.label}: the best models are those of the warm-up ({first} updates by maximum likelihood)"


def tell(
    console: Console,
    results: list[Result],
    entries: list[Entry],
    arguments: argparse.Namespace,
    task: Task,
    out: Path,
    failed: list[dict[str, Any]],
) -> None:
    """The table, the record and the picture; `failed` is what the record says of runs that came to nothing."""
    if not results:
        console.print("nothing to compare: no run has come to its end", highlight=False)
        return
    base = next((entry.label for entry in entries if entry.config.method.algorithm == "mle"), None)
    limits = entries[0].config.optimisation
    budget = f"{limits.minutes} minutes" if limits.minutes != "none" else f"{limits.steps} updates"
    title = f"{task.name}: {budget} each, best model by validation {task.metric}; mean (lowest to highest)"
    console.print(for_terminal(rows(results, task.metric, base), title))
    for line in of_the_warm_up(results, entries):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    about = {
        "task": task.name,
        "metric": task.metric,
        "higher_is_better": task.higher_is_better,
        "signature": getattr(task, "signature", None),
        "command": shlex.join(["searnn", *arguments.words]),
        "budget": {"steps": limits.steps, "minutes": limits.minutes, "patience": limits.patience},
        "settings": {entry.label: entry.config.model_dump(exclude_none=True) for entry in entries},
        "failed": failed,
    }
    write_comparison(out / "comparison.json", about, results, base)
    try:
        draw_comparison(results, out / "comparison.png", task.metric, f"{task.name}, {budget} each")
    except SearnnError as error:  # without matplotlib
        console.print(f"no picture: {error}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"all numbers: {out / 'comparison.json'}, picture: {out / 'comparison.png'}", highlight=False)
