"""The fuzzer: it finds what is planted, makes the same cases of the same seed, and finds nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))

from trials import Trial, judged

from searnn.types import SearnnError

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
FUZZER = Path(__file__).parent / "fuzz" / "fuzz.py"


def refuse() -> None:
    raise SearnnError("it is damaged")


def say(status: int, message: str) -> int:
    print(message, file=sys.stderr)
    return status


PLANTED = [  # what it does, whether as a command, and what is wrong with it
    (lambda: None, False, None),
    (refuse, False, None),
    (refuse, True, "it said"),
    (lambda: say(2, f"searnn: error: {'x' * 10_000}"), True, "it said"),
    (lambda: 1 / 0, False, "ZeroDivisionError"),
    (lambda: bytes(8 << 30), False, "MemoryError"),
    (lambda: sys.exit(0), False, "SystemExit"),
    (lambda: say(0, "fine"), True, None),
    (lambda: say(2, "searnn: error: it is damaged"), True, None),
    (lambda: say(2, "it is damaged"), True, "it said"),
    (lambda: say(1, ""), True, "it ended with status 1"),
    (lambda: say(0, "Traceback (most recent call last):"), True, "it said"),
    (lambda: say(2, "searnn: error: not enough memory"), True, "too much memory"),
    (lambda: __import__("os")._exit(3), True, "ended the process"),
    (lambda: time.sleep(60), False, "it took more than 2 s"),
    (lambda: None, False, None),
]  # fmt: skip


def test_what_is_planted_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("trials.WALL", 2)
    found = dict(judged(lambda number: Trial(*PLANTED[number][:2]), iter(range(len(PLANTED)))))
    assert list(found) == list(range(len(PLANTED)))
    for number, (*_, fault) in enumerate(PLANTED):
        assert (found[number] is None) == (fault is None), found[number]
        assert (fault or "") in (found[number] or "")


@pytest.mark.slow
def test_a_minute_of_damage_is_told_in_one_line():
    done = subprocess.run([sys.executable, str(FUZZER), "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert int(done.stdout.split()[0]) > 50
