"""Running jobs side by side with something to look at, and with a GPU shared among them."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from searnn.jobs.job import Job
from searnn.jobs.one_gpu import shared_gpu
from searnn.jobs.pool import Tally, run_all
from searnn.training.devices import ALONE
from searnn.training.world import World

Item = TypeVar("Item")
WIDE = 180  # columns, where no terminal says how many there are
PACE = 600.0  # seconds over which the pace is measured that tells the time left


def wide_console() -> Console:
    """A console whose tables are not cut where the output is a file."""
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    return console


def run_jobs(
    console: Console,
    jobs: Sequence[Job],
    wanted: int | None,
    out: Path,
    *,
    told: str = "",
    world: World = ALONE,
    again: str = "give the same command to go on",
    kind: str = "run",
) -> Tally:
    """Run the jobs, as many at a time as were wanted or as there are cores.

    `told` says more about which they are, `again` how to go on after Ctrl-C, and `kind` what one is called.
    """
    here = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    cores = max(1, here // world.local_size)
    at_once = max(1, min(wanted or cores, len(jobs)))
    number = f"{len(jobs)} {kind}{'' if len(jobs) == 1 else 's'}"
    console.print(f"{number}{told}, {at_once} at a time, in {out}", highlight=False, soft_wrap=True)
    environment = {"OMP_NUM_THREADS": str(max(1, cores // at_once)), "PYTHONUNBUFFERED": "1"}
    served_together = at_once if world.local_size == 1 else 1  # several processes would each start the service
    with shared_gpu(served_together) as served, Display(console, jobs) as shown:
        tally = run_all(jobs, at_once, shown.show, {**environment, **served}, world)
    if tally.interrupted:
        ended = f"{len(tally.done)} of {len(jobs)} {kind}s are finished; {again}"
        console.print(f"interrupted: {ended}", highlight=False, soft_wrap=True)
    return tally


class Display:
    """What stands on a terminal while runs go on, a bar for each; and everywhere one line for each that has ended."""

    def __init__(self, console: Console, jobs: Sequence[Job]) -> None:
        self.told = Counter[str]()  # how many runs of each kind were told of
        self.of_several = len({job.folder.parent for job in jobs}) > 1  # folders of runs, one for each data set
        clocks = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), *clocks)
        hidden = not console.is_terminal
        self.progress = Progress(*columns, console=console, transient=True, disable=hidden, speed_estimate_period=PACE)
        self.total = self.progress.add_task("all", total=len(jobs))
        self.bars: dict[Path, TaskID] = {}
        self.ended = 0

    def __enter__(self) -> Display:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def show(self, tally: Tally) -> None:
        """Tell what is new."""
        of_all = f"of {len(tally.jobs)}"
        if "done" not in self.told and tally.done:  # the first look
            self.told["done"] = self.ended = len(tally.done)
            self._print(f"{self.ended} {of_all} were finished before")
        for job in self._new("done", tally.done):
            self.ended += 1
            self._print(f"{self.ended} {of_all}: {self.line(job)}")
        for folder, reason in self._new("failed", tally.failed.items()):
            self.ended += 1
            self._print(f"{self.ended} {of_all} failed: {folder}: {reason}")
        for folder, fewer in self._new("crowded out", tally.crowded_out):
            self._print(f"{folder} has not enough memory beside the others and goes on later; now {fewer} at a time")
        if self.progress.disable:
            return
        shares = {job.folder: min(job.share(), 1.0) for job in tally.running}
        for folder in set(self.bars) - set(shares):
            self.progress.remove_task(self.bars.pop(folder))
        for folder, share in shares.items():
            if folder not in self.bars:
                self.bars[folder] = self.progress.add_task(escape(self._place(folder) + folder.name), total=1.0)
            self.progress.update(self.bars[folder], completed=share)
        word = "stopping, all are saved" if tally.interrupted else f"{self.ended} {of_all}"
        self.progress.update(self.total, completed=self.ended + sum(shares.values()), description=word)

    def line(self, job: Job) -> str:
        """What a finished run has come to."""
        found = ", ".join(f"{name} {value:.4g}" for name, value in (job.tested() or {}).items())
        return f"{self._place(job.folder)}{job.told()}, test {found}"

    def _place(self, folder: Path) -> str:
        return f"{folder.parent.name}: " if self.of_several else ""

    def _new(self, kind: str, runs: Iterable[Item]) -> list[Item]:
        """Those that were not told of yet; runs are only ever added."""
        new = list(runs)[self.told[kind] :]
        self.told[kind] += len(new)
        return new

    def _print(self, line: str) -> None:
        self.progress.console.print(line, highlight=False, markup=False, soft_wrap=True)
