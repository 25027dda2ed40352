"""Methods that are run beside each other: their complete settings, and a job for each of their seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from searnn.config import Config, building, flags, trust
from searnn.config.parser import Parser
from searnn.config.registry import flag
from searnn.interfaces import Loads, Task
from searnn.jobs.job import Job
from searnn.reports.comparison import Result, read_result, slug
from searnn.runs.folders import SETTINGS, is_fixed, new_folder, settings_of
from searnn.tasks.common.splits import judged_on
from searnn.types import SearnnError

APART = ("algorithm", "seed")  # settings that differ between the runs: --algorithms and --seeds give them


@dataclass(frozen=True)
class Method:
    """One of the methods that are compared."""

    label: str
    config: Config  # complete, with the first seed


@cache  # a table has many items
def own_parser(task: str) -> Parser:
    """Of the settings of an item."""
    parser = Parser(prog=f"searnn train {task}", with_help=False)
    flags.add_settings(parser, task, without=APART)
    return parser


def own_settings(task: str, words: Sequence[str]) -> dict[str, Any]:
    """What the words of an item mean: an algorithm, and flags after it."""
    algorithm, *given = words
    found = flags.given(own_parser(task).parse(given)) if given else {}
    return {**{name: value for name, value in found.items() if value is not None}, "algorithm": algorithm}


def checked(methods: list[Method], console: Console) -> Task:
    """The task, its data read; all that can be refused before a long run is."""
    with console.status("reading the data") as status:
        task = building.make_task(methods[0].config, progress=lambda line: status.update(escape(line)))
        if isinstance(task, Loads):
            task.load()
    if judged_on(task) == "test":
        next(iter(task.test(1)), None)  # refused where there is none: the models are measured on it in the end
    for method in methods:
        building.check_task(method.config, task)
        cost = building.make_cost(method.config, task)
        building.make_algorithm(method.config, cost, building.knowledge(task))
        building.make_model(method.config, task)
        building.make_settings(method.config)
    return task


def make_jobs(
    methods: list[Method],
    seeds: Iterable[int],
    out: Path,
    beam: int = 1,
    given_by: str = "--out",
    length_penalty: float = 1.0,
    mbr: int = 0,
) -> list[Job]:
    """All runs, one seed after the other; a folder that holds a run with other settings is refused.

    `given_by` is the flag that gives the folder `out`.
    """
    out = new_folder(out, methods[0].config)
    jobs = []
    for seed in seeds:
        for method in methods:
            folder = out / folder_name(method.label, seed)
            config = method.config.model_copy(update={"run": method.config.run.model_copy(update={"seed": seed})})
            jobs.append(Job(method.label, seed, config, folder, beam, length_penalty, mbr))
            if [job.folder for job in jobs].count(folder) > 1:
                raise SearnnError(f"two of --algorithms would share the folder {folder}: write them in another way")
            if (folder / SETTINGS).is_file():
                before = settings_of(folder, trust.names(config.flat()), refuse=False)
                if other := otherwise(jobs[-1], before):
                    raise SearnnError(f"{folder} holds {other}; give another folder with {given_by}")
    return jobs


def folder_name(label: str, seed: int | str) -> str:
    """What the folder of a method's run is called."""
    return slug(f"{label}-{seed}")


def otherwise(job: Job, before: Config) -> str | None:
    """Which other run than the job's its folder holds, made with the settings `before`; None where it is the same."""
    saved, wanted = before.flat(), job.config.flat()
    for name, value in wanted.items():
        if saved.get(name) != value and is_fixed(name, saved):
            return f"another run: {flag(name)} was {saved.get(name)} and is now {value}"
    counters = job.counters() or {"step": 0, "seconds": 0}
    spent = [(counters["step"], wanted["steps"], "updates")]
    if saved["minutes"] != wanted["minutes"]:  # it ends a little after its time
        spent.append((round(counters["seconds"] / 60, 2), wanted["minutes"], "minutes"))
    for had, limit, unit in spent:
        if isinstance(limit, (int, float)) and had > limit:
            return f"a run of {had} {unit}, more than the {limit} that are wanted"
    return None


def finished(jobs: Iterable[Job], metric: str) -> list[Result]:
    """What has come of those runs that were trained and tested to their end."""
    tested = ((job, job.tested()) for job in jobs)
    return [read_result(job.label, job.seed, job.folder, metric, test) for job, test in tested if test is not None]
