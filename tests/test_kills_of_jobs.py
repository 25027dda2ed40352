"""`compare`, `reproduce` and `train --seeds`, killed at any change of the disk and given again, end with one table."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from disk_events import WRITES, hooked, killed_at, recorded
from reproduce_cases import PLAN
from tiny_data import spelling_files

from searnn.cli import child, main
from searnn.jobs import experiments, pool
from searnn.training.state import held

# Newer Pythons warn of forking beside threads; the children here only run commands and end by os._exit.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
    pytest.mark.skipif(sys.platform != "linux", reason="no other system hands over orphans"),
]

STUB = (sys.executable, str(Path(__file__).with_name("helpers") / "compare_stub.py"))
PR_SET_CHILD_SUBREAPER = 36  # of prctl
TIMES = ("seconds", "seconds_per_step", "cpu_seconds", "times_mle", "curve", "minutes", "checksum")
TOY = ["--steps", "2", "--eval-every", "1", "--width", "8", "--examples", "20", "--batch-size", "4", "--device", "cpu"]
COMMANDS = {
    "compare": ["compare", "copy", *TOY, "--algorithms", "mle,lols", "--seeds", "1", "--out", "out"],
    "seeds": ["train", "copy", *TOY, "--seeds", "2", "--run", "out"],
    "reproduce": ["reproduce", "table1", "--quick", "--only", "copy", "--out", "out"],
}


def untimed(value: Any) -> Any:
    """A record without what depends on the clock."""
    if isinstance(value, dict):
        return {name: untimed(held) for name, held in value.items() if name not in TIMES}
    return [untimed(held) for held in value] if isinstance(value, list) else value


def tables(out: Path) -> dict[str, Any]:
    """The records of a command, and the names of all else that it and its runs have left.

    But for what was measured and is taken note of already, which nothing reads.
    """
    records = {path.name: untimed(json.loads(path.read_text())) for path in out.glob("*.json")}
    paths = (path for path in out.rglob("*") if path.suffix != ".safetensors" and path.name != "printed")
    return {**records, "files": sorted(str(path.relative_to(out)) for path in paths)}


def killed_with_orphans(number: int, action: Callable[[], object], half: bool) -> bool:
    """As `killed_at`; what the killed process has started comes to its end before this returns."""
    supervisor = os.fork()
    if supervisor:
        return os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1]) == 1
    died = False
    try:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
        died = killed_at(number, action, half)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
    finally:
        os._exit(1 if died else 0)


@pytest.mark.parametrize(
    ("program", "every"),
    [
        pytest.param(STUB, 9, id="some"),
        pytest.param(STUB, 1, id="every", marks=pytest.mark.slow),
        pytest.param(pool.PROGRAM, 8, id="real", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "name", [name if name == "compare" else pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS]
)
def test_a_command_that_is_killed_and_given_again_ends_the_same(
    name: str,
    program: tuple[str, ...],
    every: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(experiments, "read", lambda table: PLAN)
    monkeypatch.setattr(pool, "PROGRAM", program)
    monkeypatch.setattr(pool, "POLL", 0.02)
    monkeypatch.chdir(tmp_path)
    out, kill = tmp_path / "out", killed_with_orphans if program == STUB else killed_at

    def run() -> None:
        assert main([*COMMANDS[name], "--jobs", "1"]) == 0

    changes = recorded(run)
    whole = tables(out)
    assert len(changes) > 30
    shutil.rmtree(out)
    moments = [(number, half) for number, change in enumerate(changes) for half in (False, change[0] in WRITES)]
    moments = sorted(set(moments))[::every]
    for number, half in moments:
        assert kill(number, run, half)
        with hooked(lambda change, path, more=None: None):
            run()
        assert tables(out) == whole, (number, changes[number][:2], half)
        shutil.rmtree(out)
    print(f"{name}: {len(moments)} kills at {len(changes)} changes: the table of an unbroken command after each")


SMALL = "--steps 4 --eval-every 1 --batch-size 8 --width 8 --device cpu"
REAL = {
    **COMMANDS,
    "reproduce": [
        *["reproduce", "table1", "--quick", "--only", "Spelling 0.3:MLE", "Spelling 0.3:KL, learned / mixed"],
        *["--settings", SMALL, "--out", "out"],
    ],
}


MOMENTS = 10


def runs_of(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes that it has started and that go on."""
    try:
        return [int(number) for number in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    except FileNotFoundError:  # it has ended
        return []


def appearing(process: subprocess.Popen[bytes], out: Path) -> Iterator[str]:
    """The files that a command makes, each when it is first seen, until the command has ended."""
    seen = set[str]()
    ended = False
    while not ended:
        ended = process.poll() is not None
        found = {
            os.path.relpath(os.path.join(folder, name), out) for folder, _, names in os.walk(out) for name in names
        }
        yield from sorted(found - seen)
        seen |= found
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize("with_runs", [False, True], ids=["alone", "with its runs"])
@pytest.mark.parametrize("name", REAL)
def test_the_program_that_is_killed_and_given_again_ends_the_same(name: str, with_runs: bool, tmp_path: Path) -> None:
    """By SIGKILL, as files appear all over its life; its runs save and end by themselves, or are killed with it."""
    out = tmp_path / "out"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SEARNN_DATA": str(spelling_files(tmp_path))}

    def started() -> subprocess.Popen[bytes]:
        words = [sys.executable, "-P", "-m", "searnn.cli", *REAL[name], "--jobs", "1"]
        return subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL)

    unbroken = started()
    order = list(appearing(unbroken, out))
    assert unbroken.wait() == 0
    whole, killed = tables(out), 0
    shutil.rmtree(out)
    lasting = [file for file in order if file in whole["files"]]
    moments = [lasting[place * len(lasting) // MOMENTS] for place in range(MOMENTS)]
    for moment in moments:
        process = started()
        assert any(file == moment for file in appearing(process, out)), moment
        runs = runs_of(process)
        process.kill()
        for run in runs if with_runs else ():
            with suppress(ProcessLookupError):
                os.kill(run, signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        assert started().wait() == 0
        assert tables(out) == whole, moment
        shutil.rmtree(out)
    assert killed >= MOMENTS - 1, "with the last file it may have ended"
    print(f"{name}: {killed} kills of the program: the table of an unbroken command after each")


def test_a_job_waits_for_one_that_still_saves_in_its_folder(tmp_path: Path) -> None:
    begun = time.monotonic()
    child.wait_for(tmp_path / "none")
    child.wait_for(tmp_path)
    with held(tmp_path):
        child.wait_for(tmp_path, patience=0.3)
    assert time.monotonic() - begun >= 0.3
