"""`python -m searnn.cli.child FILE COMMANDS PARENT`: commands of `searnn`, what the last of them prints in a file.

The commands are JSON, a list of words for each; PARENT is the number of the process that gives them: when it is gone,
this one saves and ends. One process is enough for a run's training and its test, and to import everything takes longer
than to train a small model.
"""

from __future__ import annotations

import ctypes
import io
import json
import os
import signal
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

from searnn.cli import ended_by_ctrl_c, main

with ended_by_ctrl_c():
    from searnn.files import replace_file
    from searnn.training.state import held
    from searnn.types import SearnnError

PR_SET_PDEATHSIG = 1  # of prctl
PATIENCE = 30.0  # seconds for a process to save and end whose parent is gone


def run(path: Path, commands: list[list[str]]) -> int:
    """The status of the first that fails, or 0."""
    wait_for(path.parent)
    *before, last = commands
    for words in before:
        if status := main(words):
            return status
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(last)
    if status == 0:
        replace_file(path, printed.getvalue().encode())
    return status


def wait_for(folder: Path, patience: float = PATIENCE) -> None:
    """Wait until no other process trains in the folder: that of a killed command may still be saving there."""
    end = time.monotonic() + patience
    while folder.is_dir() and time.monotonic() < end:
        try:
            with held(folder):
                return
        except SearnnError:
            time.sleep(0.1)


def end_with_parent(parent: int) -> None:
    """Have the system ask this process to save and end when its parent is gone, however that came; Linux alone can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was gone before
            sys.exit(130)


if __name__ == "__main__":
    end_with_parent(int(sys.argv[3]))
    sys.exit(run(Path(sys.argv[1]), json.loads(sys.argv[2])))
