"""What the library logs, such as which fast paths it takes, shown on a console."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class ConsoleHandler(logging.Handler):
    """Prints records above whatever is live on the console."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.INFO)
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Show one record."""
        self.console.print(record.getMessage(), style="dim", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def telling(console: Console) -> Iterator[None]:
    """Show what is logged inside."""
    log, handler = logging.getLogger("searnn"), ConsoleHandler(console)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
