"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table


def metrics_table(metrics: Mapping[str, float]) -> Table:
    """A line for each metric."""
    return table([{"metric": name, "value": f"{value:.4f}"} for name, value in metrics.items()])


def table(rows: Sequence[Mapping[str, str]], title: str | None = None) -> Table:
    """A line for each row; the columns are those of the first, which names the line."""
    made = Table(title=title, title_justify="left")
    for number, column in enumerate(rows[0]):
        made.add_column(column, justify="right" if number else "left")
    for row in rows:
        made.add_row(*row.values())
    return made
