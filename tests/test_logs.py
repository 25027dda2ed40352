"""What the library logs is shown while a command runs, and only then."""

from __future__ import annotations

import io
import logging

from rich.console import Console

from searnn.engine import log
from searnn.reports.progress import telling


def test_what_is_logged_inside_is_shown():
    shown = io.StringIO()
    before = (list(log.handlers), log.level)
    with telling(Console(file=shown)):
        log.info("engine: %s", "a [bold]path")
        log.debug("nothing")
    log.info("after")
    assert shown.getvalue() == "engine: a [bold]path\n"
    assert (list(log.handlers), log.level) == before
    assert logging.getLogger("searnn") is log
