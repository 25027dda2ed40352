"""Two starts on one new folder at once: one trains, the other is refused, and neither destroys anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tiny import Refused, contents, copy_flags
from training_cases import SETTINGS, make_model, make_task

from searnn.algorithms import Mle
from searnn.cli import main
from searnn.config import from_flags, resolve
from searnn.files import NEW
from searnn.runs import folders
from searnn.training import World, checkpoints, fit, loop
from searnn.training.state import held
from searnn.types import SearnnError

# Newer Pythons warn of forking beside threads; the children here only train and end by os._exit.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def assert_one_trained(statuses: list[int], run: Path) -> None:
    """One was refused; the other has trained to its end."""
    assert sorted(statuses) == [0, 2]
    assert checkpoints.load(run / "last")[1]["counters"]["step"] == 3
    assert checkpoints.load(run / "best")
    assert (run / "report.html").exists()
    assert not list(run.glob(f"*{NEW}"))


def start_both(command: list[str]) -> list[int]:
    """Two processes that give the command together; how they ended."""
    reader, writer = os.pipe()
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(writer)
                os.read(reader, 1)  # until both are there
                status = main(command)
            finally:
                os._exit(status)
        children.append(child)
    os.close(reader)
    os.close(writer)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


@pytest.mark.parametrize("pairs", [3, pytest.param(50, marks=pytest.mark.slow)])
def test_starts_that_begin_together(pairs: int, tmp_path: Path) -> None:
    """Of every third pair both fail after the folder was made: what they wrote is gone."""
    run = tmp_path / "new" / "run"
    command = [*copy_flags(run), "--algorithm", "mle"]
    for pair in range(pairs):
        if pair % 3 == 1:
            assert start_both([*command, "--batch-size", "500"]) == [2, 2]
            assert contents(tmp_path) == {}
        else:
            assert_one_trained(start_both(command), run)
            shutil.rmtree(run.parent)
    print(f"{pairs} pairs: one trained and the other was refused, or both were and left nothing")


def test_a_start_that_is_refused_leaves_the_run_of_another(tmp_path: Path, refused: Refused) -> None:
    """Neither its own failure nor that of the other removes what is not its own."""
    run = tmp_path / "run"
    with held(run):
        assert f"{run} is in use, another process is training there" in refused(*copy_flags(run))
        (run / "config.toml.new").touch()  # it begins
        assert "is in use" in refused(*copy_flags(run))
    assert main([*copy_flags(run), "--algorithm", "mle"]) == 0
    before = contents(run)
    config = resolve(from_flags({"name": "copy"}))
    with pytest.raises(SearnnError, match="exists already"), folders.opened(run, config, World()):
        pass  # it had looked before the other began
    assert contents(run) == before


def test_the_folder_that_is_held_is_the_one_that_is_there(tmp_path: Path) -> None:
    """One that was removed while another process waited for it, and made anew, is held anew."""
    run = tmp_path / "run"
    with held(run):
        waiting = subprocess.Popen(
            [sys.executable, "-c", WAITS, str(run)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
        )
        assert waiting.stdout.readline() == "waiting\n"
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(0.5)
        run.rmdir()
    assert waiting.stdout.readline() == "holds\n"
    assert run.is_dir()
    with pytest.raises(SearnnError, match="is in use"), held(run):
        pass
    waiting.communicate("\n", timeout=60)
    with held(run) as is_held:
        assert is_held


WAITS = """
import sys
from pathlib import Path
from searnn.training.state import held
print("waiting", flush=True)
with held(Path(sys.argv[1]), wait=True):
    print("holds", flush=True)
    input()
"""


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is not held may be another's by now; the run there can be begun again."""

    def refuse(handle: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    run = tmp_path / "run"
    assert main([*copy_flags(run), "--batch-size", "500"]) == 2
    assert [path.name for path in run.iterdir()] == ["config.toml"]


def test_two_trainings_from_python_that_looked_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fit` looks at the folder once it holds it: what another has trained meanwhile is not begun anew."""
    short = replace(SETTINGS, steps=2, eval_every=2)
    real, first = loop.held, list[Path]()

    def slowly(folder: Path, wait: bool = False) -> object:
        if not first:
            first.append(folder)
            fit(make_model(), Mle(), make_task(), short, folder)
        return real(folder, wait)

    monkeypatch.setattr(loop, "held", slowly)
    with pytest.raises(SearnnError, match="already holds a run"):
        fit(make_model(), Mle(), make_task(), short, tmp_path / "run")
