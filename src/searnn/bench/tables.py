"""A report as tables: for the terminal, and in a form that can stand in a page of documentation as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table

from searnn.bench.phases import PHASES

NONE = "-"


def setting_table(part: Mapping[str, Any]) -> Table:
    """One setting: a column for each way to train, a line for each thing that is known of it."""
    rows: Sequence[Mapping[str, Any]] = part["rows"]
    table = _table("", *(row["name"] for row in rows))

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
    line("row-steps", lambda row: number(row["row_steps"]))
    line("row-steps/s", lambda row: number(row["row_steps_per_second"]))
    line("floor, ms", lambda row: number(row.get("floor_ms")))
    line("of the floor, %", lambda row: number(row["of_floor"], 100))
    return table


def setting_title(part: Mapping[str, Any]) -> str:
    """What the table is of, in a line."""
    sizes, rates = part["sizes"], part["rates"]
    low, high = sizes["cells"]
    kind = ("bidirectional " if sizes["bidirectional"] else "") + f"GRU {sizes['width']}"
    kind += " with attention" if sizes["attention"] == "additive" else ""
    cells = f"T {high}" if low == high else f"T {low} to {high}"
    what = {name: "copies at" if name == "copy" else f"{name} products at" for name in rates}
    unit = {name: "GB/s" if name == "copy" else "GFLOP/s" for name in rates}
    speeds = [f"{what[name]} {number(rate['median'], 1e-9)} {unit[name]}" for name, rate in rates.items()]
    data = f"{part['data']} data"
    told = f"{kind}, batch {sizes['batch_size']}, V {sizes['vocabulary']}, {cells}, {sizes['cost']} cost, {data}"
    return f"{part['name']}: {told}; {', '.join(speeds)}"


def scale_table(part: Mapping[str, Any]) -> Table:
    """How time and memory grow, size by size, and the exponents."""
    table = _table("size", "roll-out", "", "median, ms", "quartiles, ms", "memory, MB", "time ~", "memory ~")
    for line in part["lines"]:
        axis = line["axis"]
        powers = [power(axis, line["time_exponent"]), power(axis, line["memory_exponent"])]
        for place, point in enumerate(line["points"]):
            name, roll_out, *shown = [axis, line["roll_out"], *powers] if place == 0 else [""] * 4
            ms = point["ms"]
            times = [number(ms["median"]), span(ms["lower"], ms["upper"])]
            table.add_row(name, roll_out, str(point["size"]), *times, number(point["peak_bytes"], 1e-6), *shown)
    return table


def scale_title(part: Mapping[str, Any]) -> str:
    """Around which sizes it was varied."""
    base = ", ".join(f"{letter} {'T' if size is None else size}" for letter, size in part["base"].items())
    return f"growth of a SEARNN step around {base}"


def costs_table(part: Mapping[str, Any]) -> Table:
    """Pairs per second of every cost and library."""
    table = _table("cost", "library", "pairs", "pairs/s", "quartiles", "us a pair", "x searnn")
    ours: dict[str, float | None] = {}
    for line in part["lines"]:
        speed, ms = line["pairs_per_second"], line["ms"]["median"]
        each = None if ms is None else 1e3 * ms / line["pairs"]
        if line["library"] == "searnn":
            ours[line["cost"]] = each
        base = ours.get(line["cost"])
        times = number(each / base) if each and base else NONE
        shown = (str(line["pairs"]), number(speed["median"]), span(speed["lower"], speed["upper"]), number(each), times)
        table.add_row(line["cost"], line["library"], *shown)
    return table


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


def power(axis: str, exponent: float | None) -> str:
    """A power of a size."""
    return NONE if exponent is None else f"{axis}^{exponent:.2f}"


def _table(*columns: str) -> Table:
    table = Table(box=box.MARKDOWN)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table
