"""Runs side by side: each trained and tested by a process of its own, as many at a time as the machine allows.

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

import torch

from searnn.config import Config, files
from searnn.files import advice, replace_file
from searnn.jobs.memory import SHORTAGE
from searnn.reports.comparison import has_beam, with_beam
from searnn.runs.opening import SETTINGS
from searnn.training.interruption import interruption
from searnn.types import SearnnError

POLL = 0.2  # seconds between looks at the processes
PROGRAM = (sys.executable, "-m", "searnn.jobs.job")
TESTED = "test.json"  # the metrics on the test data, in the run's folder
UNREADABLE = (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, AttributeError)
RANKS = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Job:
    """One run: what it is called, its complete settings, its folder, and the beam that tests it besides greedily."""

    label: str
    seed: int
    config: Config
    folder: Path
    beam: int = 1

    @property
    def log(self) -> Path:
        """What its process says."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def printed(self) -> Path:
        """What the measuring prints, until it is taken note of."""
        return self.folder / "printed"

    @property
    def failed(self) -> Path:
        """Why its last process failed, where it did."""
        return self.folder.with_name(f"{self.folder.name}.failed")

    def failure(self) -> str | None:
        """Why it came to nothing; None where it did not, as far as is known."""
        if self.tested() is not None:  # another process has brought it to its end
            return None
        try:
            return self.failed.read_text()
        except OSError:
            return None

    def counters(self) -> dict[str, Any] | None:
        """Where the run stood when it was last saved; None where it never was."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "last" / "state.json").read_text())["state"]["counters"]
        except UNREADABLE:  # a damaged one is told of by the training
            return None
        return found

    def share(self) -> float:
        """How much of its budget the run has spent, as far as it has been saved."""
        limits, counters = self.config.optimisation, self.counters()
        if counters is None:
            return 0.0
        shares = [0.0]
        shares += [counters["step"] / limits.steps] if isinstance(limits.steps, int) else []
        shares += [counters["seconds"] / 60 / limits.minutes] if isinstance(limits.minutes, (int, float)) else []
        shares += [1.0] if isinstance(limits.patience, int) and counters["stale"] >= limits.patience else []
        return max(shares)

    def tested(self) -> dict[str, float] | None:
        """The metrics of the best model on the test data; None where they were not measured, or of an earlier model.

        A beam that was measured and is not asked for is left out.
        """
        try:
            content = json.loads((self.folder / TESTED).read_text())
            best_step, metrics, beam = content["best_step"], dict(content["metrics"]), content.get("beam", 1)
        except UNREADABLE:
            return None
        counters = self.counters()
        fits = counters is not None and self.share() >= 1 and best_step == counters["best_step"]
        if not fits or self.beam not in (1, beam):
            return None
        return {name: value for name, value in metrics.items() if self.beam > 1 or not has_beam(name)}

    def commands(self) -> list[list[str]]:
        """What is to be done: train or go on, and measure; or only that."""
        widths = "1" if self.beam == 1 else f"1,{self.beam}"
        measure = ["eval", str(self.folder), "--json", "--device", str(self.config.run.device), "--beam", widths]
        return [measure] if self.share() >= 1 else [self._train(), measure]

    def _train(self) -> list[str]:
        task, limits = str(self.config.task.name), self.config.optimisation
        if not (self.folder / SETTINGS).is_file():
            files.write(self.config, self.settings)
            return ["train", task, "--config", str(self.settings), "--run", str(self.folder)]
        budget = {"--steps": limits.steps, "--minutes": limits.minutes, "--patience": limits.patience}
        given = [word for flag, value in budget.items() for word in (flag, str(value))]
        return ["train", task, "--run", str(self.folder), "--resume", *given]

    @property
    def settings(self) -> Path:
        """The file of settings that the run is made from."""
        return self.folder.with_name(f"{self.folder.name}.toml")

    def note(self) -> None:
        """Keep what the evaluation printed, a line for greedy decoding and one for a beam if it has one."""
        counters = self.counters() or {}
        greedy, *others = map(json.loads, self.printed.read_text().splitlines())
        for found in others:
            greedy["metrics"] |= {with_beam(name, self.beam): value for name, value in found["metrics"].items()}
        content = {"best_step": counters.get("best_step"), **greedy, "beam": self.beam}
        replace_file(self.folder / TESTED, json.dumps(content).encode())
        self.printed.unlink()
        self.failed.unlink(missing_ok=True)  # of another process that found this one at work

    def complaint(self) -> str:
        """The last thing that its process said."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1].removeprefix("searnn: error: ") if lines else "it said nothing"

    def lacks_memory(self) -> bool:
        """Whether that is what its process said."""
        return self.complaint().startswith(SHORTAGE)


@dataclass(frozen=True)
class Beside:
    """Which of how many processes on this machine this one is that start runs, as the ranks of torchrun do."""

    number: int = 0
    all: int = 1

    def place(self, own: int) -> int:
        """A place of this process among those of all, so that they take different GPUs."""
        return self.number + own * self.all


ALONE = Beside()


@dataclass
class Standing:
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


Show = Callable[[Standing], None]


def run_all(
    jobs: Sequence[Job], at_once: int, show: Show, environment: Mapping[str, str], beside: Beside = ALONE
) -> Standing:
    """Bring all jobs to their end; what fails is noted and stops no other."""
    standing = Standing(jobs, [job for job in jobs if job.tested() is not None], {}, [])
    waiting = deque(job for job in jobs if job not in standing.done)
    running: dict[int, tuple[subprocess.Popen[str], Job]] = {}  # by place: where there are several GPUs, each has some
    accompanied = set[Path]()  # the folders of those that have run beside others
    try:
        with interruption() as interrupted:
            while waiting or running:
                if interrupted() and not standing.interrupted:
                    standing.interrupted = True
                    waiting.clear()
                    for process, _ in running.values():
                        process.terminate()
                while waiting and len(running) < at_once:
                    job, place = waiting.popleft(), next(place for place in range(at_once) if place not in running)
                    try:
                        running[place] = (_start(job, beside.place(place), environment), job)
                    except (OSError, SearnnError) as error:  # a full disk
                        reason = advice(error) if isinstance(error, OSError) else str(error)
                        _note_failure(job, f"it cannot be started: {reason}", standing)
                standing.running = [job for _, job in running.values()]
                if len(running) > 1:
                    accompanied.update(job.folder for job in standing.running)
                show(standing)
                time.sleep(POLL)
                for place, (process, job) in list(running.items()):
                    if process.poll() is not None:
                        del running[place]
                        crowded = process.returncode != 0 and job.folder in accompanied and job.lacks_memory()
                        if crowded and not standing.interrupted:
                            accompanied.discard(job.folder)
                            at_once = max(1, min(at_once, len(running)))
                            standing.crowded_out.append((job.folder, at_once))
                            waiting.append(job)
                        else:
                            _note_end(job, process.returncode, standing)
    finally:  # a second Ctrl-C
        for process, _ in running.values():
            process.kill()
            process.wait()
    standing.running = []
    show(standing)
    return standing


def _start(job: Job, place: int, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """The process of a job; in a session of its own, so that Ctrl-C reaches it through us alone, and no rank."""
    job.failed.unlink(missing_ok=True)
    devices = visible_gpus()
    own = {"CUDA_VISIBLE_DEVICES": devices[place % len(devices)]} if len(devices) > 1 else {}
    with job.log.open("a") as log:
        return subprocess.Popen(
            [*PROGRAM, str(job.printed), json.dumps(job.commands()), str(os.getpid())],
            stdout=log,
            stderr=log,
            env={name: value for name, value in os.environ.items() if name not in RANKS} | {**environment, **own},
            text=True,
            start_new_session=True,
        )


def _note_end(job: Job, status: int, standing: Standing) -> None:
    """Take note of how a process ended."""
    if status != 0:
        if not standing.interrupted:
            _note_failure(job, job.complaint() if status > 0 else killed(-status), standing)
        return
    try:
        job.note()
        standing.done.append(job)
    except (OSError, ValueError) as error:  # a full disk; a metric of the user's own that prints
        _note_failure(job, f"what it measured cannot be kept: {error}", standing)


def killed(number: int) -> str:
    """What is said of a process that a signal has ended."""
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return f"{name} ended it" + (", as the system does where memory runs out" if number == signal.SIGKILL else "")


def _note_failure(job: Job, reason: str, standing: Standing) -> None:
    """Keep the reason, also for other processes that take part in the same table."""
    standing.failed[job.folder] = reason
    with suppress(OSError):  # a full disk
        job.failed.write_text(reason)


def visible_gpus() -> list[str]:
    """The GPUs that processes may be given, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    return [str(number) for number in range(torch.cuda.device_count())]
