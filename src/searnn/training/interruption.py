"""Ctrl-C without loss: the first signal asks training to end well, a second Ctrl-C acts as it always does.

Other signals come more than once by themselves: a shell and the system both tell of a closed terminal, a batch system
tells all processes of a job, which tell each other. Under torchrun so does Ctrl-C, which it passes on: what comes
shortly after the first is taken for the same.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from torch import distributed

Item = TypeVar("Item")

# SIGTERM is how batch systems announce that time is up, SIGHUP how a terminal says that it was closed.
HANG_UP: int = signal.SIGHUP if os.name == "posix" else signal.SIGTERM  # other systems do not have it
SIGNALS = (signal.SIGINT, signal.SIGTERM, HANG_UP)
ECHO = 5.0  # seconds in which torchrun may pass on what the terminal has sent


class EvaluationStoppedError(Exception):
    """A signal to end came while something was done that can be done again."""


def stopping(items: Iterable[Item], interrupted: Callable[[], bool]) -> Iterator[Item]:
    """The items, until a signal to end has come."""
    for item in items:
        if interrupted():
            raise EvaluationStoppedError
        yield item


@contextmanager
def interruption(echo: float = ECHO) -> Iterator[Callable[[], bool]]:
    """Inside, a signal to end is noted and no more; calling what is yielded tells whether one came.

    After it other signals are passed over, and under torchrun Ctrl-C for `echo` seconds.
    """
    came: list[float] = []
    wait = echo if distributed.is_available() and distributed.is_torchelastic_launched() else 0.0
    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield lambda: False
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    if before.get(HANG_UP) == signal.SIG_IGN:  # as nohup has it
        del before[HANG_UP]

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def note(number: int, frame: Any) -> None:  # noqa: ARG001
        came.append(time.monotonic())
        if number == signal.SIGINT and len(came) > 1 and came[-1] - came[0] >= wait:
            restore()
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        restore()
