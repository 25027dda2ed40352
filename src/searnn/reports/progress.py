"""What a console shows of a training: its progress, live on a terminal and plain anywhere else, and what is logged."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from jaxtyping import Float
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from torch import Tensor

from searnn.training import Plan, Record

REFRESH = 0.25  # seconds between refreshes of the live line; each waits for the device once


class ProgressLine:
    """Shows step, speed, loss, metric and time left; a `Watcher` of `fit`."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console()
        self.live: Live | None = None
        self.plan = Plan(0, None, None, 0.0, "metric")
        self.step, self.seconds = 0, 0.0
        self.loss, self.metric, self.best = math.nan, math.nan, math.nan
        self.best_step = 0
        self.shown = -math.inf

    def start(self, plan: Plan) -> None:
        """Training begins."""
        self.plan, self.step, self.seconds = plan, plan.step, plan.seconds
        if plan.step:
            self.console.print(f"resumed at step {plan.step}", highlight=False)
        if self.console.is_terminal:
            self.live = Live(self._line(), console=self.console, auto_refresh=False, transient=True)
            self.live.start()

    def on_step(self, step: int, loss: Float[Tensor, ""], seconds: float) -> None:
        """So many steps are made."""
        self.step, self.seconds = step, seconds
        if self.live is not None and time.perf_counter() - self.shown > REFRESH:
            self.loss = float(loss)
            self.live.update(self._line(), refresh=True)
            self.shown = time.perf_counter()

    def on_evaluation(self, record: Record, best_metric: float | None, best_step: int) -> None:
        """A line was added to the records."""
        self.seconds = record["seconds"] or 0.0
        self.loss = _number(record.get("train_loss"))
        self.metric, self.best = _number(record.get(f"valid_{self.plan.metric}")), _number(best_metric)
        self.best_step = best_step
        if self.live is not None:
            self.live.update(self._line(), refresh=True)
        else:
            self.console.print(self.text(), highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Training has ended or failed: the terminal gets its cursor back."""
        if self.live is not None:
            self.live.stop()
            self.live = None

    def text(self) -> str:
        """The line as plain text."""
        made, spent = self.step - self.plan.step, self.seconds - self.plan.seconds
        words = [f"step {self.step}" + (f"/{self.plan.steps}" if self.plan.steps else "")]
        words += [f"{made / spent:.3g} steps/s"] if made and spent else []
        words += [f"loss {self.loss:.4g}"] if math.isfinite(self.loss) else []
        left = self.time_left()
        words += [f"{_clock(left)} left"] if left is not None else []
        if math.isfinite(self.metric):  # last, as a narrow terminal cuts the end off
            words.append(f"{self.plan.metric} {self.metric:.4g}, best {self.best:.4g} at step {self.best_step}")
        return " · ".join(words) if self.console.encoding.startswith("utf") else " | ".join(words)

    def time_left(self) -> float | None:
        """Seconds until the limit that comes first, by the speed so far; None where nothing tells."""
        made, spent = self.step - self.plan.step, self.seconds - self.plan.seconds
        limits = []
        if self.plan.steps is not None and made and spent:
            limits.append(max(0, self.plan.steps - self.step) * spent / made)
        if self.plan.minutes is not None:
            limits.append(max(0.0, 60 * self.plan.minutes - self.seconds))
        return min(limits, default=None)

    def share(self) -> float | None:
        """How much of the limit that comes first is spent; None without a limit."""
        shares = [self.step / self.plan.steps] if self.plan.steps else []
        shares += [self.seconds / 60 / self.plan.minutes] if self.plan.minutes else []
        return min(1.0, max(shares)) if shares else None

    def _line(self) -> Table:
        share, text = self.share(), self.text()
        room = min(24, self.console.width - len(text) - 2)
        grid = Table.grid(padding=(0, 1))
        grid.add_column()
        grid.add_column(no_wrap=True, overflow="ellipsis")
        bar = ProgressBar(total=1.0, completed=share, width=room) if share is not None and room >= 6 else ""
        grid.add_row(bar, text)
        return grid


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


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
