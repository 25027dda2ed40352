"""Tables as files in `experiments` describe them: data sets, methods, settings of each entry, the paper's numbers."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any

import searnn
from searnn.types import SearnnError

TABLES = ("table1", "table2", "table3", "ablations", "algorithms", "translation", "ocr", "folds", "sigmorphon2021")


@dataclass(frozen=True)
class TableRow:
    """A data set of a table: the task, the settings of all its runs, and the paper's numbers by column."""

    task: str
    settings: str = ""
    quick: str = ""  # a smaller budget, for a look
    paper: Mapping[str, float] = field(default_factory=dict)
    paper_needs: Mapping[str, bool] = field(default_factory=dict)  # settings without which they say nothing here
    own: Mapping[str, str] = field(default_factory=dict)  # settings of single columns
    quick_own: Mapping[str, str] = field(default_factory=dict)  # the same for a look
    without: Sequence[str] = ()  # columns that make no sense here
    groups: Sequence[str] = ()  # those in whose means it counts

    def papers_number(self, column: str, settings: Mapping[str, Any]) -> float | None:
        """What the paper has there, if that says something of a run with these settings."""
        told = all(settings[name] == value for name, value in self.paper_needs.items())
        return self.paper.get(column) if told else None


FIELDS = frozenset(each.name for each in fields(TableRow))


@dataclass(frozen=True)
class Table:
    """A table as its file describes it."""

    title: str
    unit: str
    scale: float
    columns: Mapping[str, str]
    rows: Mapping[str, TableRow]
    note: str = ""  # what can be compared with the paper, and what cannot
    common: str = ""  # settings of all rows, each of which may have others
    seeds: int = 3  # of each entry, if nobody asks for another number
    beam: int = 1  # the best models are tested with it too, but for a look
    mbr: int = 0  # and, likewise, by minimum Bayes risk with so many samples
    ensemble: int = 1  # and so many runs of an entry as one model
    metrics: Sequence[str] = ()  # each in a table of its own that shows all ways of decoding
    mean_of_rows: bool = False  # a line more, for rows that make up one thing
    quick_columns: Sequence[str] = ()  # those that a look has unless others are named; where there are none: all

    @property
    def groups(self) -> dict[str, list[str]]:
        """The rows of each group."""
        names = dict.fromkeys(group for row in self.rows.values() for group in row.groups)
        return {group: [name for name, row in self.rows.items() if group in row.groups] for group in names}

    def chosen(self, row: str, texts: Sequence[str], quick: bool = False) -> list[str]:
        """The columns of a row that some texts mean; without any, all, or those of a quick look."""
        there = [column for column in self.columns if column not in self.rows[row].without]
        usual = set(self.quick_columns if quick and self.quick_columns else there)
        return [name for name in there if self._is_meant(row, name, texts, name in usual)]

    def _is_meant(self, row: str, column: str, texts: Sequence[str], usual: bool) -> bool:
        """Whether texts mean an entry: by its column, by both as ROW:COLUMN, or by its row if it is usual."""
        for text in texts:
            first, both, second = text.partition(":")
            of_row, of_column = fits(row, first, self.rows), fits(column, second if both else first, self.columns)
            if (of_row and of_column) if both else (of_column or (of_row and usual)):
                return True
        return usual and not texts

    def settings(self, row: str, column: str, quick: bool, more: Iterable[str]) -> list[str]:
        """The algorithm and the flags of an entry, `more` of them at the end; each as it is given last."""
        algorithm, *of_column = shlex.split(self.columns[column])
        about = self.rows[row]
        own = [about.own.get(column, ""), *([about.quick, about.quick_own.get(column, "")] if quick else [])]
        found: dict[str, list[str]] = {}
        name = ""
        for word in (*shlex.split(f"{self.common} {about.settings}"), *of_column, *shlex.split(" ".join(own)), *more):
            if word.startswith("--"):
                name = word.removeprefix("--").removeprefix("no-").partition("=")[0]
                found.pop(name, None)
            found.setdefault(name, []).append(word)
        return [algorithm, *chain.from_iterable(found.values())]


def fits(name: str, text: str, names: Iterable[str]) -> bool:
    """Whether a text means a name: it is the name, or stands in it and is no other's whole name."""
    name, text = name.lower(), text.lower()
    return name == text or (text in name and text not in map(str.lower, names))


def read(name: str) -> Table:
    """The table's file, which lies beside the code or, in a checkout, in `experiments`."""
    here = Path(searnn.__file__).parent
    places = (here / "experiments", here.parents[1] / "experiments")
    path = next((place / f"{name}.toml" for place in places if (place / f"{name}.toml").is_file()), None)
    if path is None:
        told = "the paper's tables come with the package, other experiments with a checkout of the repository"
        raise SearnnError(f"there is no {name}.toml in {places[0]} or {places[1]}: {told}")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    given = content.pop("rows")
    rows: dict[str, TableRow] = {}
    for row, values in given.items():
        like = values.pop("like", None)  # a row above, of which this one has all that it does not say itself
        given[row] = {**(given[like] if like else {}), **values}
        rows |= {name: _row(about, content["columns"]) for name, about in _each(row, given[row])}
    return Table(rows=rows, **content)


def _each(row: str, values: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A row, or one for each of the sets of values in `each`: they fill {KEY} in its name and settings.

    A key that is a field of `TableRow` is that of the row.
    """
    common = {name: value for name, value in values.items() if name != "each"}
    if "each" not in values:
        yield row, common
    for own in values.get("each", ()):
        about = {**common, **{name: value for name, value in own.items() if name in FIELDS}}
        yield row.format_map(own), {**about, "settings": about["settings"].format_map(own)}


def _row(values: Mapping[str, Any], columns: Iterable[str]) -> TableRow:
    """A row of a table; one published number stands beside every column."""
    paper = values.get("paper", {})
    return TableRow(**{**values, "paper": paper if isinstance(paper, dict) else dict.fromkeys(columns, paper)})
