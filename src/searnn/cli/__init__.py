"""The command line: a file for each command of `searnn`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status. What commands need takes seconds to import, and comes here."""
    with ended_by_ctrl_c():
        from searnn.cli.program import run
    return run(arguments)


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """While it lasts Ctrl-C ends the process at once and in silence: there is nothing to tidy up, nor to tell."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or usual is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
