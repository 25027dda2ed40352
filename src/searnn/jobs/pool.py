"""Many runs at a time: each trained and tested by a process of its own, as many at a time as the machine allows.

A run whose folder is there goes on where it stood; one that is finished is left alone. Ctrl-C has all of them save.
One that has too little memory beside the others waits until one of them has ended; from then on fewer run at a time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from searnn.files import advice, remove, write
from searnn.jobs.job import Job
from searnn.training.devices import ALONE, visible_gpus
from searnn.training.interruption import interruption
from searnn.training.world import World
from searnn.types import SearnnError

POLL = 0.2  # seconds between looks at the processes
APART = "-I" if sys.flags.isolated else "-P"  # no module comes from the current folder before it is asked for
PROGRAM = (sys.executable, APART, "-m", "searnn.cli.child")  # by name: what is run stands above
RANKS = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass
class Tally:
    """How far all jobs are, for who shows it."""

    jobs: Sequence[Job]
    done: list[Job]
    failed: dict[Path, str]  # by the folder: why
    running: list[Job]
    crowded_out: list[tuple[Path, int]] = field(default_factory=list)  # by lack of memory: how many run at a time since
    interrupted: bool = False

    def reasons(self) -> list[dict[str, Any]]:
        """Which runs failed, and why."""
        return [
            {"label": job.label, "seed": job.seed, "folder": str(job.folder), "reason": self.failed[job.folder]}
            for job in self.jobs
            if job.folder in self.failed
        ]


Show = Callable[[Tally], None]


def run_all(
    jobs: Sequence[Job], at_once: int, show: Show, environment: Mapping[str, str], world: World = ALONE
) -> Tally:
    """Bring all jobs to their end; what fails is noted and stops no other.

    Where `world` has other processes on this machine, which do the same, they take different GPUs.
    """
    tally = Tally(jobs, [job for job in jobs if job.tested() is not None], {}, [])
    waiting = deque(job for job in jobs if job not in tally.done)
    running: dict[int, tuple[subprocess.Popen[str], Job]] = {}  # by place: where there are several GPUs, each has some
    accompanied = set[Path]()  # the folders of those that have run beside others
    try:
        with interruption() as interrupted:
            while waiting or running:
                if interrupted() and not tally.interrupted:
                    tally.interrupted = True
                    waiting.clear()
                    for process, _ in running.values():
                        process.terminate()
                while waiting and len(running) < at_once:
                    job, place = waiting.popleft(), next(place for place in range(at_once) if place not in running)
                    try:
                        running[place] = (_start(job, world.local_rank + place * world.local_size, environment), job)
                    except (OSError, SearnnError) as error:  # a full disk
                        reason = advice(error) if isinstance(error, OSError) else str(error)
                        _note_failure(job, f"it cannot be started: {reason}", tally)
                tally.running = [job for _, job in running.values()]
                if len(running) > 1:
                    accompanied.update(job.folder for job in tally.running)
                show(tally)
                time.sleep(POLL)
                for place, (process, job) in list(running.items()):
                    if process.poll() is not None:
                        del running[place]
                        crowded = process.returncode != 0 and job.folder in accompanied and job.lacks_memory()
                        if crowded and not tally.interrupted:
                            accompanied.discard(job.folder)
                            at_once = max(1, min(at_once, len(running)))
                            tally.crowded_out.append((job.folder, at_once))
                            waiting.append(job)
                        else:
                            _note_end(job, process.returncode, tally)
    finally:  # a second Ctrl-C
        for process, _ in running.values():
            process.kill()
            process.wait()
    tally.running = []
    show(tally)
    return tally


def _start(job: Job, place: int, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """The process of a job; in a session of its own, so that Ctrl-C reaches it through us alone, and no rank."""
    remove(job.failed)
    devices = visible_gpus()
    own = {"CUDA_VISIBLE_DEVICES": devices[place % len(devices)]} if len(devices) > 1 else {}
    with job.log.open("a") as log:
        return subprocess.Popen(
            [*PROGRAM, str(job.printed), json.dumps(job.commands()), str(os.getpid())],
            stdout=log,
            stderr=log,
            env={**inherited(), **environment, **own},
            text=True,
            start_new_session=True,
        )


def inherited() -> dict[str, str]:
    """The environment that a job gets of ours: all but what makes a rank, and the current folder on PYTHONPATH.

    An empty or relative entry may mean that folder without anybody having meant it, and modules there would come
    first. An absolute one was meant. A part of the user's own is found in the current folder all the same, last.
    """
    found = {name: value for name, value in os.environ.items() if name not in RANKS}
    places = [Path(place) for place in found.pop("PYTHONPATH", "").split(os.pathsep) if place]
    meant = [place.absolute() for place in places if place.is_absolute() or place.resolve() != Path.cwd().resolve()]
    kept = os.pathsep.join(map(str, meant))
    return {**found, "PYTHONPATH": kept} if kept else found


def _note_end(job: Job, status: int, tally: Tally) -> None:
    """Take note of how a process ended."""
    if status != 0:
        if not tally.interrupted:
            _note_failure(job, job.complaint() if status > 0 else killed(-status), tally)
        return
    try:
        job.note()
        tally.done.append(job)
    except (OSError, ValueError) as error:  # a full disk; a metric of the user's own that prints
        _note_failure(job, f"what it measured cannot be kept: {error}", tally)


def killed(number: int) -> str:
    """What is said of a process that a signal has ended."""
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return f"{name} ended it" + (", as the system does where memory runs out" if number == signal.SIGKILL else "")


def _note_failure(job: Job, reason: str, tally: Tally) -> None:
    """Keep the reason, also for other processes that take part in the same table."""
    tally.failed[job.folder] = reason
    with suppress(SearnnError):  # a full disk
        write(job.failed, reason.encode())
