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

# Waits for a line, so that two processes that have imported everything begin together.
START = "import sys; from searnn.cli import main; print('ready', flush=True); input(); sys.exit(main(sys.argv[1:]))"


def assert_one_trained(statuses: list[int], run: Path) -> None:
    """One was refused; the other has trained to its end."""
    assert sorted(statuses) == [0, 2]
    assert checkpoints.load(run / "last")[1]["counters"]["step"] == 3
    assert checkpoints.load(run / "best")
    assert (run / "report.html").exists()
    assert not list(run.glob(f"*{NEW}"))


def test_starts_that_begin_together(tmp_path: Path) -> None:
    """In forked processes, which meet before they look at the folder."""
    for _ in range(3):
        run = tmp_path / "new" / "run"
        reader, writer = os.pipe()
        children = []
        for _each in range(2):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    os.close(writer)
                    os.read(reader, 1)  # until all have begun
                    status = main([*copy_flags(run), "--algorithm", "mle"])
                finally:
                    os._exit(status)
            children.append(child)
        os.close(writer)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        os.close(reader)
        assert_one_trained(statuses, run)
        shutil.rmtree(tmp_path / "new")


@pytest.mark.slow
def test_fifty_pairs_of_processes(tmp_path: Path) -> None:
    """Every fifth pair has data that are refused after the folder was made: nothing is left of it."""
    for pair in range(50):
        run, bad = tmp_path / "new" / "run", ["--batch-size", "500"] if pair % 5 == 4 else []
        command = [sys.executable, "-c", START, *copy_flags(run), "--algorithm", "mle", *bad]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        both = [subprocess.Popen(command, text=True, **pipes) for _ in range(2)]  # type: ignore[call-overload]
        for process in both:
            assert process.stdout.readline() == "ready\n"
        for process in both:
            process.stdin.write("\n")
            process.stdin.flush()
        told = [process.communicate(timeout=300)[1] for process in both]
        assert not any("Traceback" in text for text in told), told
        if bad:
            assert [process.returncode for process in both] == [2, 2]
            assert not (tmp_path / "new").exists()
        else:
            assert_one_trained([process.returncode for process in both], run)
            assert sum("is in use" in text or "exists already" in text for text in told) == 1, told
            shutil.rmtree(tmp_path / "new")
    print("50 pairs: one trained and the other was refused each time")


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
