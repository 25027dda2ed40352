"""How near a step is to what the machine could do: its operations and bytes over the rates of products and copies.

    python benchmarks/floors.py [ocr spelling nmt] [--steps 40] [--threads 2] [--real]

The methods are those of `searnn bench`, and so are the flags; the machine is measured in the same rounds. What is
counted says `counting.py`; docs/performance.md has the formula.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from counting import Amounts, amounts, products, traffic
from laboratory import execute, flags
from rich.table import Table

from searnn.bench import Setting
from searnn.bench.comparison import Comparison
from searnn.bench.methods import TimedMethod
from searnn.bench.rendering import make_table, number, setting_title, span
from searnn.bench.running import prepare
from searnn.bench.timing import ratio
from searnn.cli.bench import Shown, add_settings, make_benchmark

MATRIX = {"cpu": 1024, "cuda": 4096}  # large enough for the full rate, small enough to be taken every round
COPIED = {"cpu": 2**26, "cuda": 2**29}  # bytes, beyond every cache
SEARCH = ("table", "roll-in", "roll-out")  # their products may run in a lower precision


@dataclass(frozen=True)
class Gauge:
    """A piece of work of known amount, by which the machine is measured: operations or bytes."""

    name: str
    amount: int
    work: Callable[[], object]


def gauges(device: torch.device, precision: str) -> list[Gauge]:
    """The product of square matrices in float32 and, where it is another, in the search's precision; and a copy."""
    side = MATRIX[device.type]
    kinds = [("float32", torch.float32)]
    if precision != "float32":
        kinds.append((precision, torch.bfloat16 if precision == "bf16" else torch.float32))
    found = []
    for name, kind in kinds:
        left, right = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
        out = torch.empty_like(left)
        found.append(Gauge(name, 2 * side**3, _product(left, right, out, name == "tf32")))
    source = torch.zeros(COPIED[device.type] // 4, device=device)
    target = torch.zeros_like(source)
    found.append(Gauge("copy", 2 * COPIED[device.type], lambda: target.copy_(source)))
    return found


def _product(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, tf32: bool) -> Callable[[], object]:
    def work() -> None:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.mm(left, right, out=out)
        torch.set_float32_matmul_precision(before)

    return work


class Floors:
    """One setting: its methods timed beside the gauges, and what each asks of the machine."""

    def __init__(self, comparison: Comparison, precision: str) -> None:
        self.comparison, self.times = comparison, comparison.times
        self.gauges = {gauge.name: gauge for gauge in gauges(comparison.device, precision)}
        self.search_rate = precision
        self.amounts: dict[str, list[Amounts]] = {}

    def measure(self, shown: Shown) -> None:
        """Count first, then time."""
        for method in self.comparison.methods:
            found = [amounts(method.algorithm, self.comparison.model, batch) for batch in self.comparison.batches]
            self.amounts[method.name] = found
        self.comparison.time(shown, {name: lambda _, gauge=gauge: gauge.work() for name, gauge in self.gauges.items()})

    def report(self) -> dict[str, Any]:
        """All that is known so far."""
        return {
            **self.comparison.report(),
            "rates": {name: self._rate(name) for name in self.gauges},
            "rows": [self._row(method) for method in self.comparison.methods],
        }

    def _row(self, method: TimedMethod) -> dict[str, Any]:
        """Row-steps, operations and bytes of a step, means over the batches, and the time that they need at least."""
        found, median = self.amounts[method.name], self.times.median(method.name)
        counted = [products(self.comparison.model, one) for one in found]
        operations = {phase: statistics.mean(one[phase] for one in counted) for phase in counted[0]}
        moved = statistics.mean(traffic(self.comparison.model, one) for one in found)
        steps = statistics.mean(one.row_steps for one in found)
        floor = self._floor(operations, moved)
        return {
            "name": method.name,
            **method.about,
            "ms": self.times.summary(method.name),
            "row_steps": steps,
            "row_steps_per_second": ratio(1e3 * steps, median),
            "operations": operations,
            "bytes": moved,
            **floor,
            "of_floor": ratio(floor.get("floor_ms"), median),
        }

    def _floor(self, operations: Mapping[str, float], moved: float) -> dict[str, Any]:
        names = ("float32", self.search_rate, "copy")
        multiplying, searching_at, copying = (self._rate(name)["median"] for name in names)
        if multiplying is None or searching_at is None or copying is None:
            return {}
        searching = sum(operations[phase] for phase in SEARCH)
        computing = (sum(operations.values()) - searching) / multiplying + searching / searching_at
        moving = moved / copying
        bound = "bytes" if moving > computing else "operations"
        return {"floor_ms": 1e3 * max(computing, moving), "bound_by": bound}

    def _rate(self, name: str) -> dict[str, float | None]:
        """Operations or bytes a second: median and quartiles over the rounds."""
        amount, spent = self.gauges[name].amount, self.times.summary(name)
        flipped = {"median": "median", "lower": "upper", "upper": "lower"}
        return {new: ratio(1e3 * amount, spent[old]) for new, old in flipped.items()}


def floors_table(result: Mapping[str, Any]) -> Table:
    """A column for each method."""
    rows = result["rows"]
    table = make_table("", *(row["name"] for row in rows))
    lines: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "median, ms": lambda row: number(row["ms"]["median"]),
        "quartiles, ms": lambda row: span(row["ms"]["lower"], row["ms"]["upper"]),
        "row-steps": lambda row: number(row["row_steps"]),
        "row-steps/s": lambda row: number(row["row_steps_per_second"]),
        "floor, ms": lambda row: number(row.get("floor_ms")),
        "of the floor, %": lambda row: number(row["of_floor"], 100),
    }
    for name, show in lines.items():
        table.add_row(name, *map(show, rows))
    return table


def rates_line(rates: Mapping[str, Any]) -> str:
    """How fast the machine multiplies and copies."""
    shown = {name: number(rate["median"], 1e-9) for name, rate in rates.items()}
    told = [f"copies at {speed} GB/s" if name == "copy" else f"{name} products at {speed} GFLOP/s"
            for name, speed in shown.items()]  # fmt: skip
    return ", ".join(told)


def measure(arguments: argparse.Namespace, _: torch.device, report: dict[str, Any], shown: Shown) -> None:
    """Setting by setting."""
    benchmark = make_benchmark(arguments)
    report["settings"] = {}
    for setting in benchmark.settings:
        measure_setting(prepare(setting, benchmark, shown), benchmark.engine.precision, report, shown)


def measure_setting(comparison: Comparison, precision: str, report: dict[str, Any], shown: Shown) -> None:
    """One of them, as far as it is not interrupted."""
    setting: Setting = comparison.setting
    floors = Floors(comparison, precision)
    try:
        floors.measure(shown)
    finally:
        found = report["settings"][setting.name] = floors.report()
        shown.show(floors_table(found), f"{setting_title(found)}; {rates_line(found['rates'])}")


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = flags(__doc__)
    add_settings(parser)
    return execute(parser, measure, words)


if __name__ == "__main__":
    sys.exit(main())
