"""Runs that share a GPU: the service that lets them, with a program that only pretends to be it, and who gets which."""

import os
import sys
from pathlib import Path

import pytest
import torch

from searnn.config import from_flags, resolve
from searnn.jobs import one_gpu, pool
from searnn.jobs.job import Job
from searnn.jobs.one_gpu import CONTROL, FOLDERS, shared_gpu
from searnn.jobs.pool import run_all
from searnn.training import World

PRETENDED = """#!/bin/sh
echo "$@ $(test -t 0 || test "$1" = -d || cat) in $CUDA_MPS_PIPE_DIRECTORY" >> "$LOG"
exit $STATUS
"""


@pytest.fixture
def service(tmp_path, monkeypatch):
    """A control program in the path, and what it was asked to do."""
    program, log = tmp_path / CONTROL, tmp_path / "log"
    program.write_text(PRETENDED)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(log))
    monkeypatch.setenv("STATUS", "0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name in FOLDERS:
        monkeypatch.delenv(name, raising=False)
    return lambda: log.read_text().splitlines() if log.exists() else []


def test_the_service_runs_as_long_as_it_is_needed(service):
    with shared_gpu(2) as environment:
        assert set(environment) == set(FOLDERS)
        folder = environment[FOLDERS[0]]
        assert Path(folder).is_dir()
        assert service() == [f"-d  in {folder}"]
    assert service()[1:] == [f" quit in {folder}"]
    assert not Path(folder).exists()


def test_it_ends_with_a_mistake_too(service):
    with pytest.raises(ZeroDivisionError), shared_gpu(2):
        raise ZeroDivisionError
    assert len(service()) == 2


def test_one_run_needs_none(service):
    with shared_gpu(1) as environment:
        assert environment == {}
    assert service() == []


def test_where_it_may_not_start_they_take_turns(service, monkeypatch):
    monkeypatch.setenv("STATUS", "1")
    with shared_gpu(2) as environment:
        assert environment == {}
    assert len(service()) == 1


@pytest.mark.parametrize("without", ["program", "gpu", "own service"])
def test_where_there_is_nothing_to_start(service, without, monkeypatch):
    if without == "program":
        monkeypatch.setattr(one_gpu.shutil, "which", lambda name: None)
    elif without == "gpu":
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    else:
        monkeypatch.setenv(FOLDERS[0], "/somewhere")
    with shared_gpu(8) as environment:
        assert environment == {}
    assert service() == []


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        (World(), ["0", "1", "2", "3", "0"]),
        (World(local_rank=0, local_size=2), ["0", "2", "0", "2", "0"]),
        (World(local_rank=1, local_size=2), ["1", "3", "1", "3", "1"]),
        (World(local_rank=3, local_size=4), ["3", "3", "3", "3", "3"]),
    ],
)
def test_runs_are_spread_over_the_gpus(world, expected, tmp_path, monkeypatch):
    """Those of one process, and of several that were started beside each other."""
    tell = "import os; print(os.environ['CUDA_VISIBLE_DEVICES']); raise SystemExit(1)"
    monkeypatch.setattr(pool, "PROGRAM", (sys.executable, "-c", tell))
    monkeypatch.setattr(pool, "visible_gpus", lambda: ["0", "1", "2", "3"])
    config = resolve(from_flags({"name": "copy"}))
    jobs = [Job("mle", number, config, tmp_path / str(number)) for number in range(5)]
    run_all(jobs, 5, lambda tally: None, {}, world)
    assert [job.complaint() for job in jobs] == expected
