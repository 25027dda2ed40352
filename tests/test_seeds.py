"""`searnn train TASK --seeds N`: runs that share a machine, each as it would be alone."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from searnn.cli import main
from searnn.jobs import display, pool

STUB = (sys.executable, str(Path(__file__).with_name("helpers") / "compare_stub.py"))

TOY = ["--steps", "50", "--eval-every", "25", "--width", "8", "--examples", "40", "--threads", "1"]


@pytest.mark.parametrize(
    "device", [pytest.param("cpu", marks=pytest.mark.slow), pytest.param("cuda", marks=pytest.mark.gpu)]
)
def test_each_seed_is_its_own_single_run(tmp_path, capsys, device):
    """To the bit: a member of the group has what it would have alone."""
    toy = [*TOY, "--device", device]
    assert main(["train", "copy", *toy, "--seed", "3", "--seeds", "2", "--run", str(tmp_path / "both")]) == 0
    shown = capsys.readouterr().out
    assert "2 runs" in shown
    for seed in (3, 4):
        alone = tmp_path / f"alone-{seed}"
        assert main(["train", "copy", *toy, "--seed", str(seed), "--run", str(alone)]) == 0
        member = tmp_path / "both" / f"searnn-{seed}"
        one, other = (load_file(next((folder / "last").glob("*.safetensors"))) for folder in (member, alone))
        assert one.keys() == other.keys()
        assert all(one[name].equal(other[name]) for name in one)
    record = json.loads((tmp_path / "both" / "comparison.json").read_text())
    assert [run["seed"] for run in record["runs"]] == [3, 4]


def test_a_single_run_is_not_taken_for_several(tmp_path, capsys):
    run = ["--run", str(tmp_path / "one")]
    assert main(["train", "copy", *TOY, "--steps", "1", "--device", "cpu", *run]) == 0
    assert main(["train", "copy", *TOY, "--seeds", "2", *run]) == 2
    assert f"{tmp_path / 'one'} holds a single run: give another folder with --run" in capsys.readouterr().err


def test_ctrl_c_says_where_to_go_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pool, "PROGRAM", STUB)
    monkeypatch.chdir(tmp_path)

    def interrupt(_, tally):
        if not tally.interrupted and all(job.counters() for job in tally.running):
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(display.Display, "show", interrupt)
    words = ["train", "copy", *TOY, "--device", "cpu", "--seeds", "2", "--jobs", "1"]
    assert main(words) == 130
    told = "interrupted: 0 of 2 runs are finished; give the same command with --run runs/copy-searnn-1 to go on"
    assert told in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr(pool, "PROGRAM", STUB)
    monkeypatch.chdir(tmp_path)
    assert main([*words, "--run", "runs/copy-searnn-1"]) == 0
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["copy-searnn-1"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--jobs", "2"], "give --seeds"),
        (["--seeds", "2", "--resume", "--run", "x"], "leave out --resume"),
        (["--seeds", "0"], "--seeds"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, monkeypatch, capsys, words, told):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "copy", *TOY, *words]) == 2
    assert told in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
