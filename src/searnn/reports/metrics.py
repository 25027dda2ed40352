"""The records of a run as a list that can be looked at: as a table, as curves, by name."""

from __future__ import annotations

import html
import io
from collections.abc import Iterable
from typing import Any

from rich.console import Console

from searnn.reports.curves import as_png, canvas
from searnn.reports.rendering import TableRows, as_html, for_terminal
from searnn.training import Record
from searnn.types import SearnnError

SHOWN = 12  # lines of a table that was not asked for
WIDE = 200  # columns of a table in text: it is never cut


class TableText:
    """A table that reads well where it is printed and in a notebook."""

    def __init__(self, rows: TableRows) -> None:
        self.rows = list(rows)

    def __str__(self) -> str:
        if not self.rows:
            return "no records"
        out = io.StringIO()
        Console(file=out, width=WIDE, color_system=None, force_jupyter=False).print(for_terminal(self.rows))
        return out.getvalue().rstrip("\n")

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self.rows)


class Metrics(list[Record]):
    """The records of a run, one for each evaluation: dictionaries, with what is made of all of them together."""

    def __init__(self, records: Iterable[Record], *, metric: str, higher_is_better: bool, title: str = "") -> None:
        super().__init__(records)
        self.metric, self.higher_is_better, self.title = metric, higher_is_better, title

    @property
    def names(self) -> list[str]:
        """What was recorded as numbers, besides the step."""
        last = self[-1] if self else {}
        return [name for name, value in last.items() if name != "step" and not isinstance(value, str)]

    @property
    def best(self) -> Record | None:
        """The record of the best evaluation, of equal ones the first; None where nothing was recorded."""
        name, sign = f"valid_{self.metric}", -1 if self.higher_is_better else 1
        judged = [record for record in self if record.get(name) is not None]
        return min(judged, key=lambda record: sign * record[name], default=None)

    def column(self, name: str) -> list[tuple[int, float]]:
        """Steps and values of one name, without what was not finite."""
        self._check([name])
        return [(record["step"], record[name]) for record in self if record.get(name) is not None]

    def table(self, *names: str) -> TableText:
        """A line for each evaluation, with the metric and the loss or with what is named."""
        self._check(names)
        columns = ("step", *(names or self._usual()))
        return TableText([{name: _shown(record.get(name)) for name in columns} for record in self])

    def plot(self, *names: str) -> Any:
        """A matplotlib figure with a curve for the metric and one for the loss, or for each of what is named."""
        self._check(names)
        chosen = names or self._usual()
        figure = canvas((7, 2.4 * max(1, len(chosen))))
        for place, name in enumerate(chosen, 1):
            axes = figure.add_subplot(len(chosen), 1, place)
            points = self.column(name)
            axes.plot([step for step, _ in points], [value for _, value in points], marker=".")
            axes.set(ylabel=name.replace("_", " "))
            axes.grid(visible=True, alpha=0.3)
            if place == len(chosen):
                axes.set(xlabel="updates")
        if self.title:
            figure.suptitle(self.title)
        figure._repr_png_ = lambda: as_png(figure)  # a notebook shows it, whether pyplot was imported or not
        return figure

    def _usual(self) -> tuple[str, ...]:
        return tuple(name for name in (f"valid_{self.metric}", "train_loss") if name in self.names)

    def _check(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.names:
                known = ", ".join(self.names) or "nothing, as there is no record yet"
                raise SearnnError(f"nothing was recorded as {name!r}, expected {known}")

    def __repr__(self) -> str:
        return f"{self._few()}\n{len(self)} evaluations of {self.title or 'a run'}"

    def _repr_html_(self) -> str:
        return f"{self._few()._repr_html_()}<p>{len(self)} evaluations of {html.escape(self.title or 'a run')}</p>"

    def _few(self) -> TableText:
        """The last lines: all are too many to be shown unasked."""
        return TableText(self.table().rows[-SHOWN:])


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
