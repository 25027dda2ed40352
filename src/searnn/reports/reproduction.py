"""A table of the paper beside ours: for the terminal, as Markdown, as a page, and as a record for other programs."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pydantic import ConfigDict, Field
from rich.console import Console, Group
from rich.text import Text

from searnn import files, sealed
from searnn.reports.comparison import Result, Spread, draw_comparison, slug, spread, way_of, ways, write_record
from searnn.reports.differences import Difference, differences
from searnn.reports.entries import Ensembled, TableEntry
from searnn.reports.html import asset, self_contained, write_page
from searnn.reports.numbers import number
from searnn.reports.rendering import TableRows, as_html, as_markdown, for_terminal
from searnn.reports.ways import by_ways, means, published, stacked
from searnn.sealed import Checked
from searnn.types import SearnnError

PAGE = """<main>
<h1>{title}</h1>
<p>{note}</p>
{tables}
{failed}
{pictures}
<h2>Commands</h2>
<ul>
{commands}
</ul>
</main>"""

TABLE = '<div class="scroll" tabindex="0" role="region" aria-label="{title}">{table}</div>'
HEADED = "<h2>{title}</h2>\n" + TABLE
QUICK = "QUICK: a small budget, not the paper's numbers."
MOST_ACROSS = 12  # columns; more of them stand below each other
UNLIMITED = 10_000  # columns of a terminal on which anything fits


@dataclass(frozen=True)
class Reproduced:
    """A table as far as it has been run."""

    name: str
    title: str
    note: str
    unit: str
    scale: float  # from the metric to what the table shows
    entries: Sequence[TableEntry]
    order: Sequence[str]  # of the columns
    mean_of_rows: bool = False
    quick: bool = False  # with a small budget
    metrics: Sequence[str] = ()  # each in a table of its own, by all ways of decoding
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of rows, whose means such a table has

    @property
    def rows(self) -> list[str]:
        """The names of its data sets."""
        return list(dict.fromkeys(entry.row for entry in self.entries))

    def metric(self, row: str) -> str:
        """The metric of a data set."""
        return next(entry.metric for entry in self.entries if entry.row == row)

    @property
    def columns(self) -> list[str]:
        """The names of its methods."""
        there = {entry.column for entry in self.entries}
        return [name for name in self.order if name in there]

    def at(self, row: str, column: str) -> TableEntry | None:
        """The entry there, if the table has one."""
        return next((entry for entry in self.entries if (entry.row, entry.column) == (row, column)), None)

    def tested(self, entry: TableEntry, name: str | None = None) -> list[float]:
        """The entry's test metric, or another of its numbers, run by run."""
        return [self.scale * result.test[name or entry.metric] for result in entry.results]

    def ways(self, entry: TableEntry) -> list[str]:
        """The entry's test metric by other ways of decoding, where these were measured."""
        return ways(entry.metric, entry.results[0].test) if entry.results else []

    def lines(self, entry: TableEntry | None) -> list[str]:
        """What stands in the entry: mean and range, other means, what is missing, the paper's number, the time."""
        if entry is None:
            return [""]
        found = self.tested(entry)
        told = [f"{fmean(found):.2f}"] if found else ["-"]
        told += [f"{min(found):.2f} to {max(found):.2f}"] if len(found) > 1 else []
        told += [f"{way_of(name)}: {fmean(self.tested(entry, name)):.2f}" for name in self.ways(entry)]
        told += [f"validation {valid.mean:.2f}"] if (valid := self._valid(entry)) else []
        told += [f"{entry.missing} of {len(entry.seeds)} missing"] if entry.missing else []
        told += [f"{len(entry.failed)} of {len(entry.seeds)} failed"] if entry.failed else []
        told += [f"paper {entry.paper}"] if entry.paper is not None else []
        speed = fmean(result.seconds_per_step for result in entry.results) if found else None
        return told + ([f"{number(1000 * speed)} ms an update"] if speed is not None else [])

    def means(self) -> dict[str, float]:
        """The mean over all rows by column, where each of them has a number, if the table is to have it."""
        found: dict[str, float] = {}
        for column in self.columns if self.mean_of_rows else ():
            entries = [entry for row in self.rows if (entry := self.at(row, column)) is not None and entry.results]
            if len(entries) == len(self.rows):
                found[column] = fmean(fmean(self.tested(entry)) for entry in entries)
        return found

    @property
    def is_tall(self) -> bool:
        """Whether there are so many methods that they stand below each other."""
        return len(self.columns) > MOST_ACROSS

    def grid(self, upright: bool) -> list[dict[str, str]]:
        """What stands in the table: a row for each data set as in the paper, `upright` for each method."""
        columns = self.columns
        rows = {row: {column: "\n".join(self.lines(self.at(row, column))) for column in columns} for row in self.rows}
        if means := self.means():
            text = {column: f"{value:.2f}" for column, value in means.items()}
            rows[f"mean of {len(self.rows)}"] = {column: text.get(column, "-") for column in columns}
        if upright:
            return [{"": column, **{row: entries[column] for row, entries in rows.items()}} for column in columns]
        return [{"": row, **entries} for row, entries in rows.items()]

    @cached_property
    def apart(self) -> dict[str, list[Difference]]:
        """By metric, what the methods have more than the first one."""
        return {metric: differences(self.entries, metric, self.scale, self.whole_groups) for metric in self.metrics}

    @property
    def whole_groups(self) -> dict[str, Sequence[str]]:
        """The groups of rows that are all there."""
        return {name: rows for name, rows in self.groups.items() if set(rows) <= set(self.rows)}

    def by_ways(self) -> dict[str, TableRows]:
        """The tables by ways of decoding, where there are any, by their titles."""
        return {
            f"{self.title}: {metric.upper()}": by_ways(self.entries, metric, self.scale, self.whole_groups, apart)
            for metric, apart in self.apart.items()
        }

    def terminal(self, console: Console) -> Group:
        """As text with lines around it; what is too wide stands upright if it is narrower so."""
        if self.metrics:
            tables = (for_terminal(stacked(rows), title, lines=True) for title, rows in self.by_ways().items())
            return Group(*tables, Text(self.note))
        room = console.options.update(max_width=UNLIMITED)
        drawn = {upright: for_terminal(self.grid(upright), lines=True) for upright in (False, True)}
        width = {upright: console.measure(table, options=room).maximum for upright, table in drawn.items()}
        upright = self.is_tall or (width[False] > console.width and width[True] < width[False])
        return Group(Text(self.title), drawn[upright], Text(self.note))

    def markdown(self) -> str:
        """The same for a page of documentation."""
        tables = [f"{title}\n\n{as_markdown(rows)}" for title, rows in self.by_ways().items()]
        return f"{self.title}. {self.note}\n\n" + ("\n".join(tables) or as_markdown(self.grid(self.is_tall)))

    def record(self) -> dict[str, Any]:
        """All numbers, every run with its curve."""
        return {
            "table": self.name,
            "title": self.title,
            "note": self.note,
            "quick": self.quick,
            "unit": self.unit,
            "means": self.means(),
            **({"groups": self._groups(), "differences": self.apart} if self.metrics else {}),
            "cells": [
                {
                    **{name: value for name, value in vars(entry).items() if name != "results"},
                    "test": spread(found) if (found := self.tested(entry)) else None,
                    "deviation": stdev(found) if len(found) > 1 else None,
                    "ways": {name: spread(self.tested(entry, name)) for name in self.ways(entry)},
                    "valid": self._valid(entry),
                    "runs": entry.results,
                }
                for entry in self.entries
            ],
        }

    def _groups(self) -> dict[str, Any]:
        """The means of each group of rows: of what is published, and by column and metric of all ways of decoding."""
        found = {}
        for name, rows in self.whole_groups.items():
            own = {column: [e for row in rows if (e := self.at(row, column)) is not None] for column in self.columns}
            whole = {column: entries for column, entries in own.items() if len(entries) == len(rows)}
            found[name] = {
                "rows": rows,
                "published": {metric: published(next(iter(whole.values()), []), metric) for metric in self.metrics},
                "means": {
                    column: {metric: means(entries, metric, self.scale) for metric in self.metrics}
                    for column, entries in whole.items()
                },
            }
        return found

    def _valid(self, entry: TableEntry) -> Spread | None:
        values = [self.scale * result.valid for result in entry.results]
        return spread(values) if values else None

    def page(self, pictures: Mapping[str, Path]) -> str:
        """One file that opens anywhere, the curves inside."""
        shown = "\n".join(
            f'<figure><img src="data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}" '
            f'alt="Learning curves on {escape(row)}: validation {escape(self.metric(row))} by updates and by minutes">'
            f"<figcaption>{escape(row)}</figcaption></figure>"
            for row, path in pictures.items()
        )
        commands, failed = [], []
        for entry in self.entries:
            place = f"<li>{escape(entry.row)}, {escape(entry.column)}"
            commands.append(f"{place}: <code>{escape(entry.command)}</code></li>")
            failed += [f"{place}, seed {seed}: {escape(why)}</li>" for seed, why in entry.failed.items()]
        failures = ["<h2>Runs that failed</h2>", "<ul>", *failed, "</ul>"] if failed else []
        tables = {title: as_html(rows, in_entry) for title, rows in self.by_ways().items()}
        box = HEADED if tables else TABLE
        tables = tables or {self.title: as_html(self.grid(self.is_tall), in_entry)}
        filled = PAGE.format(
            title=escape(self.title),
            note=escape(self.note),
            tables="\n".join(box.format(title=escape(title), table=shown) for title, shown in tables.items()),
            failed="\n".join(failures),
            pictures=shown,
            commands="\n".join(commands),
        )
        own = "figure { margin: 1.5rem 0 } img { max-width: 100%; background: #fff }"
        own += " td small { display: block; white-space: nowrap }"
        return self_contained(self.title, filled, {}, styles=[asset("base.css"), own], scripts=[])


def in_entry(text: str) -> str:
    """What stands in an entry of the page."""
    first, *rest = text.split("\n")
    return f"<strong>{escape(first)}</strong>" + "".join(f"<small>{escape(line)}</small>" for line in rest)


class SavedEntry(Checked):
    """What a record of a table says of an entry and cannot be computed anew."""

    model_config = ConfigDict(extra="ignore")
    row: str
    column: str
    command: str
    paper: float | None
    metric: str
    runs: list[Result]
    failed: dict[int, str] = Field(default_factory=dict)
    seeds: list[int] | None = None
    ensemble: Ensembled | None = None

    def entry(self) -> TableEntry:
        """The entry, as it was."""
        seeds = [*(run.seed for run in self.runs), *self.failed] if self.seeds is None else self.seeds
        about = (self.row, self.column, self.command, self.paper, self.metric)
        return TableEntry(*about, self.runs, seeds, self.failed, self.ensemble)


class SavedTable(Checked):
    """The record of a table."""

    model_config = ConfigDict(extra="ignore")
    note: str
    quick: bool | None = None  # earlier versions say it in the note alone
    cells: list[SavedEntry]


def recorded(path: Path) -> tuple[list[TableEntry], bool]:
    """The entries of the table that `write` left there, if any, and whether it was a quick one."""
    try:
        found = sealed.read(path, SavedTable, "remove it, and the commands that made it write it anew")
    except (FileNotFoundError, NotADirectoryError):
        return [], False
    except OSError as error:
        raise SearnnError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    quick = found.note.startswith(QUICK) if found.quick is None else found.quick
    return [entry.entry() for entry in found.cells], quick


def write(table: Reproduced, out: Path, tell: Callable[[str], None]) -> list[Path]:
    """The record, the Markdown, the page and a picture for each row with curves; what was written.

    `tell` is told where there can be no pictures.
    """
    pictures = {}
    for row in table.rows:
        results = [result for entry in table.entries if entry.row == row for result in entry.results]
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
    write_record(record, table.record())
    files.write(text, table.markdown().encode())
    write_page(page, table.page(pictures))
    return [record, text, page, *pictures.values()]
