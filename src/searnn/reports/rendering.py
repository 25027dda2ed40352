"""Tables for the terminal, as Markdown and as HTML.

A table is a list of rows, each with its texts by column. The columns are those of the first row, whose first text names
the row; a text may have several lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from rich.table import Table

TableRows = Sequence[Mapping[str, str]]


def for_terminal(rows: TableRows, title: str | None = None, *, lines: bool = False) -> Table:
    """A table as rich prints it; `lines` are drawn between the rows. A word that is too wide is broken, not cut off."""
    table = Table(title=title, title_justify="left", show_lines=lines)
    for number, column in enumerate(rows[0]):
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    return table


def metrics_table(metrics: Mapping[str, float]) -> Table:
    """A line for each metric."""
    return for_terminal([{"metric": name, "value": f"{value:.4f}"} for name, value in metrics.items()])


def as_markdown(rows: TableRows) -> str:
    """A table for a page of documentation."""

    def line(texts: Iterable[str]) -> str:
        return "|" + "|".join(f" {text} ".replace("\n", "<br>") if text else " " for text in texts) + "|\n"

    return line(rows[0]) + line("---" for _ in rows[0]) + "".join(line(row.values()) for row in rows)


def as_html(rows: TableRows, shown: Callable[[str], str] = escape) -> str:
    """A table for a page; `shown` makes the HTML of a text."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in rows[0]) if rows else ""
    body = []
    for name, *texts in (row.values() for row in rows):
        entries = "".join(f"<td>{shown(text)}</td>" for text in texts)
        body.append(f'<tr><th scope="row">{escape(name)}</th>{entries}</tr>')
    return "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody></table>"])
