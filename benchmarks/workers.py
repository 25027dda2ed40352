"""The runs of a table by a few processes that live long: for many small runs on one GPU in little time.

    python benchmarks/workers.py sigmorphon2021 --out runs/table --processes 20 --seconds 540

`searnn reproduce` starts a process for every run. Where a run takes seconds, to import everything and to start CUDA
takes as long. Here each process makes one run after the other, and measures the ensembles of the first three and of
all, until nothing is left or the time is up; what is under way is saved then. The same table and folder given to
`searnn reproduce` finds all of it, goes on with what is missing, and writes the table. The first three seeds of all
rows come before the others, so that what time has cut off is still a table.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from searnn.cli import child
from searnn.config.parser import flag_words
from searnn.jobs import experiments
from searnn.jobs.ensembles import ensemble_of
from searnn.jobs.job import Job
from searnn.jobs.one_gpu import shared_gpu
from searnn.jobs.reproduction import Reproduction

FIRST = 3  # seeds that come before the others
PATIENCE = 20.0  # seconds for a process to save what is under way


def main(words: Sequence[str] | None = None) -> int:
    """Start the processes, or be one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("table", choices=experiments.TABLES)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", default=())
    parser.add_argument("--settings", type=flag_words, default=())
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--until", type=float, help=argparse.SUPPRESS)  # of a worker: when its time is up
    arguments = parser.parse_args(words)
    if arguments.until is None:
        return _start(arguments, list(sys.argv[1:] if words is None else words))
    torch.set_num_threads(1)
    table = experiments.read(arguments.table)
    seeds = range(arguments.seeds or table.seeds)
    about = (arguments.table, table, seeds, arguments.out, arguments.quick, arguments.only, arguments.settings)
    plan = Reproduction(*about)
    _work(plan, arguments.until)
    return 0


def _start(arguments: argparse.Namespace, words: list[str]) -> int:
    """Run the processes to their end, or until the time is up; the exit status says whether all is done."""
    until = time.time() + arguments.seconds
    arguments.out.mkdir(parents=True, exist_ok=True)
    for claim in arguments.out.glob("*/*.claim"):
        claim.unlink()
    with shared_gpu(arguments.processes) as served:
        own = {**os.environ, **served, "OMP_NUM_THREADS": "1"}
        program = [sys.executable, __file__, *words, "--until", str(until)]
        processes = [subprocess.Popen(program, env=own) for _ in range(arguments.processes)]
        while any(process.poll() is None for process in processes) and time.time() < until:
            time.sleep(0.5)
        cut = [process for process in processes if process.poll() is None]
        for process in cut:
            process.terminate()
        for process in cut:
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
    return 1 if cut else max(abs(process.returncode) for process in processes)


def _work(plan: Reproduction, until: float) -> None:
    """Do what nobody does, until nothing is left to begin or the time is up."""
    rows = plan.jobs(plan.chosen())
    runs = sorted((job for jobs in rows.values() for job in jobs), key=lambda job: job.seed >= FIRST)
    places = [[job for job in jobs if job.label == label] for jobs in rows.values() for label in _labels(jobs)]
    while time.time() < until:
        waiting = [job for job in runs if not _claim(job).exists()]
        ready = [job for size in {FIRST, plan.table.ensemble} for job in _ensembles(places, size)]
        if job := next((job for job in (*ready, *waiting) if _take(job)), None):
            _do(job, until)
        elif all(job.tested() is not None or job.failure() is not None for job in runs):
            return
        else:
            time.sleep(1.0)


def _labels(jobs: Sequence[Job]) -> list[str]:
    return list(dict.fromkeys(job.label for job in jobs))


def _ensembles(places: Sequence[Sequence[Job]], size: int) -> Iterator[Job]:
    """The ensembles of so many runs, of those places where these are at their end."""
    for jobs in places:
        members = jobs[:size]
        if len(members) > 1 and all(job.tested() is not None for job in members):
            job = ensemble_of(jobs[0], {job.folder: job.measured()["best_step"] for job in members})
            if not _claim(job).exists():
                yield job


def _claim(job: Job) -> Path:
    return job.folder.with_name(f"{job.folder.name}.claim")


def _take(job: Job) -> bool:
    """Whether it is this process that does the job."""
    _claim(job).parent.mkdir(parents=True, exist_ok=True)
    try:
        _claim(job).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _do(job: Job, until: float) -> None:
    """Bring a job to its end."""
    if job.tested() is not None:
        return
    began = time.time()
    status = child.run(job.printed, job.commands())
    if status == 0:
        job.note()
    elif time.time() < until:  # else it was cut
        job.failed.write_text(f"exit status {status}")
    told = job.told() if status == 0 else f"{job.label}, seed {job.seed}: exit status {status}"
    left, spent = until - time.time(), time.time() - began
    print(f"{left:6.0f} s left, {spent:5.1f} s: {job.folder.parent.name}, {told}, {job.tested()}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
