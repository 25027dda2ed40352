"""`python -m searnn.cli.job FILE COMMANDS`: commands of `searnn` one after the other, what the last prints in a file.

The commands are JSON, a list of words for each. One process is enough for a run's training and its test, and to import
everything takes longer than to train a small model. When the process that started it is gone, it saves and ends.
"""

from __future__ import annotations

import ctypes
import io
import json
import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path

from searnn.cli.main import main
from searnn.training.checkpoints import replace_file

PR_SET_PDEATHSIG = 1  # of prctl


def run(path: Path, commands: list[list[str]]) -> int:
    """The status of the first that fails, or 0."""
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


def end_with_parent() -> None:
    """Have the system ask this process to save and end when the parent is gone, however that came; Linux alone can.

    It asks once for each thread that the parent had, and asked twice a training ends at once: the first counts.
    """

    def end(*_: object) -> None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        signal.raise_signal(signal.SIGTERM)

    if sys.platform == "linux":
        signal.signal(signal.SIGUSR1, end)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)


if __name__ == "__main__":
    end_with_parent()
    sys.exit(run(Path(sys.argv[1]), json.loads(sys.argv[2])))
