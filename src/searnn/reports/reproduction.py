"""A table of the paper beside ours: for the terminal, as Markdown, as a page, and as a record for other programs."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from searnn import files
from searnn.reports.comparison import Result, beams, draw_comparison, slug, spread
from searnn.reports.html import asset, self_contained, write_page
from searnn.reports.numbers import number
from searnn.types import SearnnError

PAGE = """<main>
<h1>{title}</h1>
<p>{note}</p>
<div class="scroll" tabindex="0" role="region" aria-label="{title}"><table>
<thead><tr><th scope="col"></th>{head}</tr></thead>
<tbody>
{body}
</tbody></table></div>
{failed}
{pictures}
<h2>Commands</h2>
<ul>
{commands}
</ul>
</main>"""

QUICK = "QUICK: a small budget, not the paper's numbers."
MOST_ACROSS = 12  # columns; more of them stand below each other
UNLIMITED = 10_000  # columns of a terminal on which anything fits


@dataclass(frozen=True)
class Cell:
    """One number of a table: what the paper has, and the finished runs that stand beside it."""

    row: str
    column: str
    command: str
    paper: float | None
    metric: str
    results: Sequence[Result]
    seeds: Sequence[int]  # of the runs that are planned
    failed: Mapping[int, str] = field(default_factory=dict)  # why, by seed

    @property
    def missing(self) -> int:
        """How many runs have neither come to their end nor failed."""
        return len(self.seeds) - len(self.results) - len(self.failed)

    def joined(self, earlier: Cell | None) -> Cell:
        """With what an earlier command, the same but for its seeds, has made of the cell."""
        if earlier is None or earlier.command != self.command:
            return self
        results = {result.seed: result for result in (*earlier.results, *self.results)}
        failed = {seed: why for seed, why in earlier.failed.items() if seed not in self.seeds} | dict(self.failed)
        seeds = sorted({*earlier.seeds, *self.seeds})
        found = [results[seed] for seed in sorted(results) if seed not in failed]
        return replace(self, results=found, seeds=seeds, failed=dict(sorted(failed.items())))


@dataclass(frozen=True)
class Reproduced:
    """A table as far as it has been run."""

    name: str
    title: str
    note: str
    unit: str
    scale: float  # from the metric to what the table shows
    cells: Sequence[Cell]
    order: Sequence[str]  # of the columns
    mean_of_rows: bool = False
    quick: bool = False  # with a small budget

    @property
    def rows(self) -> list[str]:
        """The names of its data sets."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    def metric(self, row: str) -> str:
        """The metric of a data set."""
        return next(cell.metric for cell in self.cells if cell.row == row)

    @property
    def columns(self) -> list[str]:
        """The names of its methods."""
        there = {cell.column for cell in self.cells}
        return [name for name in self.order if name in there]

    def at(self, row: str, column: str) -> Cell | None:
        """The cell there, if the table has one."""
        return next((cell for cell in self.cells if (cell.row, cell.column) == (row, column)), None)

    def tested(self, cell: Cell, name: str | None = None) -> list[float]:
        """The cell's test metric, or another of its numbers, run by run."""
        return [self.scale * result.test[name or cell.metric] for result in cell.results]

    def beams(self, cell: Cell) -> list[str]:
        """The cell's test metric with a beam, where that was measured."""
        return beams(cell.metric, cell.results[0].test) if cell.results else []

    def lines(self, cell: Cell | None) -> list[str]:
        """What stands in the cell: mean and range, other means, what is missing, the paper's number, the time."""
        if cell is None:
            return [""]
        found = self.tested(cell)
        told = [f"{fmean(found):.2f}"] if found else ["-"]
        told += [f"{min(found):.2f} to {max(found):.2f}"] if len(found) > 1 else []
        for name in self.beams(cell):
            told.append(f"{name.rpartition(', ')[2]}: {fmean(self.tested(cell, name)):.2f}")
        told += [f"validation {valid['mean']:.2f}"] if (valid := self._valid(cell)) else []
        told += [f"{cell.missing} of {len(cell.seeds)} missing"] if cell.missing else []
        told += [f"{len(cell.failed)} of {len(cell.seeds)} failed"] if cell.failed else []
        told += [f"paper {cell.paper}"] if cell.paper is not None else []
        speed = fmean(result.seconds_per_step for result in cell.results) if found else None
        return told + ([f"{number(1000 * speed)} ms an update"] if speed is not None else [])

    def means(self) -> dict[str, float]:
        """The mean over all rows by column, where each of them has a number, if the table is to have it."""
        found: dict[str, float] = {}
        for column in self.columns if self.mean_of_rows else ():
            cells = [cell for row in self.rows if (cell := self.at(row, column)) is not None and cell.results]
            if len(cells) == len(self.rows):
                found[column] = fmean(fmean(self.tested(cell)) for cell in cells)
        return found

    @property
    def is_tall(self) -> bool:
        """Whether there are so many methods that they stand below each other."""
        return len(self.columns) > MOST_ACROSS

    def grid(self, upright: bool) -> tuple[list[str], dict[str, list[list[str]]]]:
        """The heads, and what stands in each line: one for each data set as in the paper, `upright` for each method."""
        rows = {row: [self.lines(self.at(row, column)) for column in self.columns] for row in self.rows}
        if means := self.means():
            text = {column: f"{value:.2f}" for column, value in means.items()}
            rows[f"mean of {len(self.rows)}"] = [[text.get(column, "-")] for column in self.columns]
        if not upright:
            return self.columns, rows
        return list(rows), {
            column: [cells[place] for cells in rows.values()] for place, column in enumerate(self.columns)
        }

    def terminal(self, console: Console) -> Group:
        """As text with lines around it; what is too wide stands upright if it is narrower so."""
        room = console.options.update(max_width=UNLIMITED)
        drawn = {upright: self._drawn(upright) for upright in (False, True)}
        width = {upright: console.measure(table, options=room).maximum for upright, table in drawn.items()}
        upright = self.is_tall or (width[False] > console.width and width[True] < width[False])
        return Group(Text(self.title), drawn[upright], Text(self.note))

    def _drawn(self, upright: bool) -> Table:
        heads, lines = self.grid(upright)
        table = Table(show_lines=True)
        table.add_column("")
        for head in heads:
            table.add_column(head, justify="right")
        for name, cells in lines.items():
            table.add_row(name, *("\n".join(cell) for cell in cells))
        return table

    def markdown(self) -> str:
        """The same for a page of documentation."""
        heads, lines = self.grid(self.is_tall)
        text = [f"| | {' | '.join(heads)} |", "| --- |" + " --- |" * len(heads)]
        for name, cells in lines.items():
            text.append(f"| {name} | {' | '.join('<br>'.join(cell) for cell in cells)} |")
        return f"{self.title}. {self.note}\n\n" + "\n".join(text) + "\n"

    def record(self) -> dict[str, Any]:
        """All numbers, every run with its curve."""
        return {
            "table": self.name,
            "title": self.title,
            "note": self.note,
            "quick": self.quick,
            "unit": self.unit,
            "means": self.means(),
            "cells": [
                {
                    "row": cell.row,
                    "column": cell.column,
                    "command": cell.command,
                    "metric": cell.metric,
                    "paper": cell.paper,
                    "seeds": list(cell.seeds),
                    "failed": dict(cell.failed),
                    "test": asdict(spread(found)) if (found := self.tested(cell)) else None,
                    "deviation": stdev(found) if len(found) > 1 else None,
                    "beams": {name: asdict(spread(self.tested(cell, name))) for name in self.beams(cell)},
                    "valid": self._valid(cell),
                    "runs": [asdict(result) for result in cell.results],
                }
                for cell in self.cells
            ],
        }

    def _valid(self, cell: Cell) -> dict[str, float] | None:
        values = [self.scale * result.valid for result in cell.results]
        return asdict(spread(values)) if values else None

    def page(self, pictures: Mapping[str, Path]) -> str:
        """One file that opens anywhere, the curves inside."""
        heads, lines = self.grid(self.is_tall)
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
        body = "\n".join(
            f'<tr><th scope="row">{escape(name)}</th>'
            + "".join(f"<td>{in_cell(cell)}</td>" for cell in cells)
            + "</tr>"
            for name, cells in lines.items()
        )
        shown = "\n".join(
            f'<figure><img src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}" '
            f'alt="Learning curves on {escape(row)}: validation {escape(self.metric(row))} by updates and by minutes">'
            f"<figcaption>{escape(row)}</figcaption></figure>"
            for row, path in pictures.items()
        )
        commands = "\n".join(
            f"<li>{escape(cell.row)}, {escape(cell.column)}: <code>{escape(cell.command)}</code></li>"
            for cell in self.cells
        )
        failed = "\n".join(
            f"<li>{escape(cell.row)}, {escape(cell.column)}, seed {seed}: {escape(why)}</li>"
            for cell in self.cells
            for seed, why in cell.failed.items()
        )
        failed = f"<h2>Runs that failed</h2>\n<ul>\n{failed}\n</ul>" if failed else ""
        title, note = escape(self.title), escape(self.note)
        filled = PAGE.format(
            title=title, note=note, head=head, body=body, failed=failed, pictures=shown, commands=commands
        )
        own = "figure { margin: 1.5rem 0 } img { max-width: 100%; background: #fff }"
        own += " td small { display: block; white-space: nowrap }"
        return self_contained(self.title, filled, {}, styles=[asset("base.css"), own], scripts=[])


def in_cell(lines: Sequence[str]) -> str:
    """What stands in a cell of the page."""
    first, *rest = lines
    return f"<strong>{escape(first)}</strong>" + "".join(f"<small>{escape(line)}</small>" for line in rest)


def recorded(path: Path) -> tuple[list[Cell], bool]:
    """The cells of the table that `write` left there, if any, and whether it was a quick one."""
    if not path.is_file():
        return [], False
    try:
        content = json.loads(path.read_bytes())
        return [read_cell(cell) for cell in content["cells"]], content.get("quick", content["note"].startswith(QUICK))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SearnnError(f"{path} is damaged: remove it, and the commands that made it write it anew") from None


def read_cell(record: Mapping[str, Any]) -> Cell:
    """A cell as `Reproduced.record` has it."""
    runs = [Result(**{**run, "curve": [tuple(point) for point in run["curve"]]}) for run in record["runs"]]
    failed = {int(seed): why for seed, why in record.get("failed", {}).items()}
    seeds = record.get("seeds", [*(run.seed for run in runs), *failed])
    about = (record["row"], record["column"], record["command"], record["paper"], record["metric"])
    return Cell(*about, runs, seeds, failed)


def write(table: Reproduced, out: Path, tell: Callable[[str], None]) -> list[Path]:
    """The record, the Markdown, the page and a picture for each row with curves; what was written.

    `tell` is told where there can be no pictures.
    """
    pictures = {}
    for row in table.rows:
        results = [result for cell in table.cells if cell.row == row for result in cell.results]
        path = out / f"{table.name}-{slug(row)}.png"
        try:
            if results:
                name = dict.fromkeys((table.metric(row), table.unit.lower()))  # BLEU is its own unit
                draw_comparison(results, path, ", ".join(name), f"{table.title}: {row}", table.scale)
                pictures[row] = path
        except SearnnError as error:  # without matplotlib
            tell(f"no pictures: {error}")
            break
    record, text, page = (out / f"{table.name}.{ending}" for ending in ("json", "md", "html"))
    files.write(record, json.dumps(table.record(), indent=1, allow_nan=False).encode())
    files.write(text, table.markdown().encode())
    write_page(page, table.page(pictures))
    return [record, text, page, *pictures.values()]
