"""`searnn train` under torchrun: one folder and one voice, Ctrl-C, a rank that dies, and a mistake told once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from distributed_cases import assert_same_to_rounding, start_ranks

from searnn.cli import main
from searnn.training import checkpoints

SIZES = "--symbols 3 --length 3 --examples 40 --width 8 --batch-size 5 --eval-every 10 --device cpu --precision 64-true"
COMMAND = ["-m", "--", "searnn.cli", "train", "copy", *SIZES.split(), "--algorithm", "mle"]
ENDLESS = [*COMMAND, "--steps", "1000000"]


def step_of(run: Path) -> int:
    last = run / "last"
    return int(checkpoints.load(last)[1]["counters"]["step"]) if checkpoints.exists(last) else 0


def wait_for(run: Path, ranks: subprocess.Popen[str]) -> None:
    """Wait until the run has evaluated once."""
    for _ in range(1200):
        if step_of(run) >= 10:
            return
        assert ranks.poll() is None, ranks.communicate()
        time.sleep(0.1)
    raise AssertionError("no progress in two minutes")


def pid_of_rank(rank: int, ranks: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{ranks.pid}/task/{ranks.pid}/children").read_text().split()
    (found,) = [pid for pid in children if f"\0RANK={rank}\0" in Path(f"/proc/{pid}/environ").read_text()]
    return int(found)


def assert_goes_on_alone(run: Path, folder: Path) -> None:
    """The run, taken further by one process, is the run that one process makes from the beginning."""
    steps = ["--steps", str(step_of(run) + 7)]
    assert main(["train", "copy", "--run", str(run), "--resume", *steps]) == 0
    assert main([*COMMAND[3:], "--run", str(folder), *steps]) == 0
    assert_same_to_rounding(folder, run)


def test_ctrl_c(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "copy-mle-1"
    with start_ranks(*ENDLESS, cwd=tmp_path) as ranks:
        wait_for(run, ranks)
        ranks.send_signal(signal.SIGINT)
        _, told = ranks.communicate(timeout=120)
    assert ranks.returncode != 0
    assert [place.name for place in run.parent.iterdir()] == ["copy-mle-1"]
    assert told.count("run runs/copy-mle-1\n") == 1
    steps = step_of(run)
    assert told.count(f"interrupted after {steps} steps; go on with --run runs/copy-mle-1 --resume") == 1
    assert told.count("interrupted") == 1
    assert_goes_on_alone(run, tmp_path / "whole")


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with start_ranks(*ENDLESS, "--run", str(run)) as ranks:
        wait_for(run, ranks)
        os.kill(pid_of_rank(1, ranks), signal.SIGKILL)
        _, told = ranks.communicate(timeout=120)
    assert ranks.returncode != 0
    assert "searnn: error: rank 0 of 2: the other ranks are lost (" in told
    assert "the run can be resumed from its last checkpoint" in told
    assert "SIGKILL" in told, "torchrun says who died"
    assert_goes_on_alone(run, tmp_path / "whole")


def test_a_mistake_is_told_once(tmp_path: Path) -> None:
    with start_ranks(*COMMAND, "--run", str(tmp_path / "run"), "--steps", "5", "--accumulate", "3") as ranks:
        out, told = ranks.communicate(timeout=120)
    assert (ranks.returncode, out) == (1, "")
    assert told.count("searnn: error:") == 1
    assert "searnn: error: the batch size is 5, expected at least 6" in told
    assert "exitcode  : 2" in told
    assert not (tmp_path / "run").exists()
