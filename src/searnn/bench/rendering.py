"""A report as tables: for the terminal, and in a form that can stand in a page of documentation as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from searnn.bench.spans import PHASES

NONE = "-"


def setting_table(result: Mapping[str, Any]) -> Table:
    """One setting: a column for each way to train, a line for each thing that is known of it."""
    rows: Sequence[Mapping[str, Any]] = result["rows"]
    table = make_table("", *(row["name"] for row in rows))

    def line(name: str, show: Callable[[Mapping[str, Any]], str]) -> None:
        table.add_row(name, *map(show, rows))

    line("median, ms", lambda row: number(row["ms"]["median"]))
    line("quartiles, ms", lambda row: span(row["ms"]["lower"], row["ms"]["upper"]))
    line("x plain MLE", lambda row: number(row["x_plain_mle"]))
    line("x MLE", lambda row: number(row["x_mle"]))
    line("first step, ms", lambda row: number(row["first_ms"]))
    for phase in (*PHASES, "total"):
        line(f"{phase}, ms", lambda row, phase=phase: number((row["breakdown_ms"] or {}).get(phase)))  # type: ignore[misc]
    line("peak memory, MB", lambda row: number(row["peak_bytes"], 1e-6))
    return table


def setting_title(result: Mapping[str, Any]) -> str:
    """What the table is of, in a line."""
    sizes = result["sizes"]
    low, high = sizes["cells"]
    kind = ("bidirectional " if sizes["bidirectional"] else "") + f"GRU {sizes['width']}"
    kind += " with attention" if sizes["attention"] == "additive" else ""
    cells = f"T {high}" if low == high else f"T {low} to {high}"
    data = f"{result['data']} data"
    told = f"{kind}, batch {sizes['batch_size']}, V {sizes['vocabulary']}, {cells}, {sizes['cost']} cost, {data}"
    return f"{result['name']}: {told}"


def machine_line(machine: Mapping[str, Any]) -> str:
    """The machine in a line."""
    threads = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}"
    place = machine.get("gpu") or f"{threads} on {machine['cores']} cores of {machine['processor']}"
    load = "" if machine["load"] is None else f", load {machine['load'][0]:.1f}"
    return f"{place}, torch {machine['torch']}, Python {machine['python']}{load}"


def number(value: float | None, factor: float = 1.0) -> str:
    """Three digits that count, without a power of ten."""
    if value is None:
        return NONE
    value *= factor
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def span(lower: float | None, upper: float | None) -> str:
    """From the lower quartile to the upper."""
    return NONE if lower is None else f"{number(lower)} to {number(upper)}"


def make_table(*columns: str) -> Table:
    """An empty table in Markdown."""
    table = Table(box=box.MARKDOWN)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table
