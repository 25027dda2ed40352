"""`searnn reproduce table1`: a table of the paper, run anew, beside its numbers.

`ablations` has what the paper only mentions, `algorithms` every method with the same time, `translation` what else was
tried on table 3, `ocr` what was tried on OCR, `folds` OCR over all of its data.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console

import searnn
from searnn.cli.compare import Entry, checked, finished, make_jobs, own_settings
from searnn.cli.parser import count, flag_words, whole
from searnn.cli.running import run_jobs, wide_console
from searnn.cli.side_by_side import Beside, Job
from searnn.config import from_flags, resolve
from searnn.reports.comparison import slug
from searnn.reports.reproduction import QUICK, Cell, Reproduced, recorded, write
from searnn.training.state import held
from searnn.types import SearnnError

TABLES = ("table1", "table2", "table3", "ablations", "algorithms", "translation", "ocr", "folds")


@dataclass(frozen=True)
class Row:
    """A data set of a table: the task, the settings of all its runs, and the paper's numbers by column."""

    task: str
    settings: str = ""
    quick: str = ""  # a smaller budget, for a look
    paper: dict[str, float] = field(default_factory=dict)
    paper_needs: dict[str, Any] = field(default_factory=dict)  # settings without which its numbers say nothing here
    own: dict[str, str] = field(default_factory=dict)  # settings of single columns
    quick_own: dict[str, str] = field(default_factory=dict)  # the same for a look
    without: Sequence[str] = ()  # columns that make no sense here


@dataclass(frozen=True)
class Plan:
    """A table as its file describes it."""

    title: str
    unit: str
    scale: float
    columns: dict[str, str]
    rows: dict[str, Row]
    note: str = ""  # what can be compared with the paper, and what cannot
    beam: int = 1  # the best models are tested with it too
    mean_of_rows: bool = False  # a line more, for rows that are parts of one thing
    quick_columns: Sequence[str] = ()  # those that --quick has without --only; none of them: all


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "run a table of the paper anew, beside its numbers"
    notes = (
        "The same command again goes on with what is not finished, and shows the table as far as it is, with what "
        "other commands have made in that folder. Under torchrun, or with --share, every process takes its part of "
        "the runs; give all of them the same --out."
    )
    parser = commands.add_parser("reproduce", help=text, description=text.capitalize() + ".", epilog=notes)
    parser.add_argument("table", choices=TABLES, metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--seeds", metavar="N", type=count, help="runs of each cell [3; with --quick 1]")
    parser.add_argument("--first-seed", metavar="N", type=whole, default=0, help="seed of the first of them [0]")
    parser.add_argument("--quick", action="store_true", help="a small budget, for a look on a CPU")
    parser.add_argument("--only", metavar="TEXT", nargs="+", help="rows, columns or ROW:COLUMN: a name or a part of it")
    text = "settings of searnn train for all runs"
    parser.add_argument("--settings", metavar="FLAGS", type=flag_words, default=(), help=text)
    parser.add_argument("--jobs", metavar="N", type=count, help="runs at a time [as many as there are CPU cores]")
    text = "take only the I-th of N parts of the runs, counted from 0"
    parser.add_argument("--share", metavar="I/N", type=share, help=text)
    text = "folder of the runs [runs/reproduce-TABLE, with --quick runs/reproduce-TABLE-quick]"
    parser.add_argument("--out", metavar="FOLDER", type=Path, help=text)
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    parser.set_defaults(command=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Run what is missing, and show the table."""
    console = wide_console()
    plan = read(arguments.table)
    number = arguments.seeds or (1 if arguments.quick else 3)
    seeds = range(arguments.first_seed, arguments.first_seed + number)
    for text in arguments.only or ():
        if not any(wanted(plan, name, [text]) for name in plan.rows):
            raise SearnnError(f"--only {text}: {arguments.table} has no such cell; --list shows all")
    chosen = {name: entries(plan, name, arguments) for name in plan.rows}
    chosen = {name: found for name, found in chosen.items() if found}
    if arguments.list:
        for name, found in chosen.items():
            lines = (f"  {entry.label}: {command(plan, name, entry.label, arguments)}" for entry in found)
            print(name, *lines, sep="\n")
        return 0
    part, parts = arguments.share or (int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))
    ranks = parts > 1 and arguments.share is None
    if arguments.share is not None and int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise SearnnError("under torchrun every process takes its own part: leave out --share")
    name = f"reproduce-{arguments.table}{'-quick' if arguments.quick else ''}"
    out = arguments.out or Path("runs", name)
    metrics = read_all(chosen, console)
    earlier_cells(arguments, out, metrics)  # refuses what cannot be joined, before anything is run
    jobs = {row: make_jobs(found, seeds, out / slug(row), plan.beam) for row, found in chosen.items()}
    beside = Beside(int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    own = [job for found in jobs.values() for job in found][part::parts]
    told = "" if parts == 1 else f" (part {part} of {parts})"
    standing = run_jobs(console, own, arguments.jobs, out, told=told, beside=beside)
    if standing.interrupted:
        return 130

    def tell(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    with held(out, wait=True):  # who ends last writes all that is there
        now = {}
        for row, found in chosen.items():
            for entry in found:
                of_cell = [job for job in jobs[row] if job.label == entry.label]
                given = command(plan, row, entry.label, arguments)
                paper = plan.rows[row].paper.get(entry.label) if stands_beside(plan.rows[row], entry) else None
                now[row, entry.label] = as_cell(row, given, paper, of_cell, metrics[row])
        table = joined(plan, arguments, earlier_cells(arguments, out, metrics), now, tell)
        written = write(table, out, tell)
    missing = sum(cell.missing for cell in now.values())
    if ranks and missing:
        tell(f"{missing} of the runs of other ranks to come; the last rank to end shows the table")
    else:
        console.print(table.terminal(console))
    tell("written: " + ", ".join(str(path) for path in written))
    failed = any(cell.failed for cell in now.values())
    return 1 if failed and not (ranks and missing) else 0  # torchrun would end the other ranks


def read_all(chosen: Mapping[str, list[Entry]], console: Console) -> dict[str, str]:
    """The metric of each data set; all that can be refused before a long run is."""
    found = {}
    for row, entries in chosen.items():
        try:
            found[row] = checked(entries, console).metric
        except SearnnError as error:
            others = [other for other in chosen if other != row]
            told = f"; without it: --only {' '.join(map(shlex.quote, others))}" if others else ""
            raise SearnnError(f"{row}: {error}{told}") from error
    return found


def stands_beside(row: Row, entry: Entry) -> bool:
    """Whether the paper's number has something to say of a run."""
    settings = entry.config.flat()
    return all(settings[name] == value for name, value in row.paper_needs.items())


def earlier_cells(arguments: argparse.Namespace, out: Path, metrics: Mapping[str, str]) -> list[Cell]:
    """The cells that other commands have left in the folder; refuses those that cannot stand beside the new ones."""
    cells, quick = recorded(out / f"{arguments.table}.json")
    if cells and quick != arguments.quick:
        told = "the small budget of --quick" if quick else "the whole budget"
        raise SearnnError(f"{out} holds a table with {told}: give another folder with --out")
    for cell in cells:
        if cell.metric != metrics.get(cell.row, cell.metric):
            told = f"{cell.row} by {cell.metric}, not by {metrics[cell.row]}"
            raise SearnnError(f"{out} holds a table with {told}: give another folder with --out")
    return cells


def joined(
    plan: Plan,
    arguments: argparse.Namespace,
    earlier: Iterable[Cell],
    now: Mapping[tuple[str, str], Cell],
    tell: Callable[[str], None],
) -> Reproduced:
    """The table of these cells and of earlier ones, as far as the table still has them."""
    there = {(cell.row, cell.column): cell for cell in earlier}
    for place, cell in now.items():
        if (before := there.get(place)) is not None and not cell.belongs_with(before) and before.results:
            tell(f"{', '.join(place)}: {len(before.results)} earlier with other settings left out: {before.command}")
    cells = {**there, **{place: cell.joined(there.get(place)) for place, cell in now.items()}}
    found = [cells[row, column] for row in plan.rows for column in plan.columns if (row, column) in cells]
    told = [QUICK] if arguments.quick else []
    told += [f"Test {plan.unit}, {over(found)}; best model by validation."]
    told += [f"All with {shlex.join(arguments.settings)}."] if arguments.settings else []
    told += [plan.note] if plan.note else []
    apart = [row for row in plan.rows if any(cell.row == row and lacks_paper(plan, cell) for cell in found)]
    told += [f"{', '.join(apart)}: other data than the paper's, whose numbers are left out."] if apart else []
    return Reproduced(
        name=arguments.table,
        title=plan.title,
        note=" ".join(told),
        unit=plan.unit,
        scale=plan.scale,
        cells=found,
        order=list(plan.columns),
        mean_of_rows=plan.mean_of_rows,
        quick=arguments.quick,
    )


def lacks_paper(plan: Plan, cell: Cell) -> bool:
    """Whether the paper has a number there that does not stand in the cell."""
    return cell.paper is None and cell.column in plan.rows[cell.row].paper


def over(cells: Iterable[Cell]) -> str:
    """What the numbers of these cells are taken over."""
    seeds = {tuple(sorted([*(result.seed for result in cell.results), *cell.failed])) for cell in cells} - {()}
    if not seeds:
        return "no run has come to its end"
    first, last = min(map(min, seeds)), max(map(max, seeds))
    if len(seeds) > 1:
        return f"mean and range over each cell's own seeds, from {first} to {last}"
    return f"mean and range over the seeds {first} to {last}" if first < last else f"seed {first}"


def as_cell(row: str, given: str, paper: float | None, jobs: list[Job], metric: str) -> Cell:
    """What has come of the runs of one cell, each with another seed."""
    failed = {job.seed: why for job in jobs if (why := job.failure()) is not None}
    return Cell(row, jobs[0].label, given, paper, metric, finished(jobs, metric), [job.seed for job in jobs], failed)


def share(text: str) -> tuple[int, int]:
    """Which part of how many."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"must be I/N with I from 0 to N - 1, such as 0/4, got {text!r}")
    return int(found[1]), int(found[2])


def read(name: str) -> Plan:
    """The table's file, which lies beside the code or, in a checkout, in `experiments`."""
    here = Path(searnn.__file__).parent
    places = (here / "experiments", here.parents[1] / "experiments")
    path = next((place / f"{name}.toml" for place in places if (place / f"{name}.toml").is_file()), None)
    if path is None:
        raise SearnnError(f"there is no {name}.toml in {places[0]} or {places[1]}: install the package again")
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = {row: Row(**values) for row, values in content.pop("rows").items()}
    return Plan(rows=rows, **content)


def entries(plan: Plan, row: str, arguments: argparse.Namespace) -> list[Entry]:
    """The cells of a row that are wanted, each with its complete settings."""
    task, found = plan.rows[row].task, []
    quick = plan.quick_columns if arguments.quick else ()
    for column in wanted(plan, row, arguments.only or quick or [""]):
        try:
            given = own_settings(task, settings(plan, row, column, arguments))
            given = {**given, "name": task, "seed": str(arguments.first_seed)}
            found.append(Entry(column, resolve(from_flags(given))))
        except SearnnError as error:
            raise SearnnError(f"{row}, {column}: {error}") from error
    return found


def wanted(plan: Plan, row: str, texts: Sequence[str]) -> list[str]:
    """The columns of a row that were asked for."""
    there = (column for column in plan.columns if column not in plan.rows[row].without)
    return [column for column in there if is_wanted(plan, row, column, texts)]


def is_wanted(plan: Plan, row: str, column: str, texts: Sequence[str]) -> bool:
    """Whether a cell is among those that were asked for by the name of its row, its column, or both as ROW:COLUMN."""
    for text in texts:
        first, both, second = text.partition(":")
        of_row, of_column = fits(row, first, plan.rows), fits(column, second if both else first, plan.columns)
        if (of_row and of_column) if both else (of_row or of_column):
            return True
    return False


def fits(name: str, text: str, names: Iterable[str]) -> bool:
    """Whether a text means a name: it is the name, or a part of it and no other's whole name."""
    name, text = name.lower(), text.lower()
    return name == text or (text in name and text not in map(str.lower, names))


def settings(plan: Plan, row: str, column: str, arguments: argparse.Namespace) -> list[str]:
    """The algorithm and the flags of a cell, each as it is given last."""
    algorithm, *flags = shlex.split(plan.columns[column])
    about = plan.rows[row]
    texts = [about.own.get(column, "")]
    texts += [about.quick, about.quick_own.get(column, "")] if arguments.quick else []
    found: dict[str, list[str]] = {}
    name = ""
    for word in (*shlex.split(about.settings), *flags, *shlex.split(" ".join(texts)), *arguments.settings):
        if word.startswith("--"):
            name = word.removeprefix("--").removeprefix("no-").partition("=")[0]
            found.pop(name, None)
        found.setdefault(name, []).append(word)
    return [algorithm, *chain.from_iterable(found.values())]


def command(plan: Plan, row: str, column: str, arguments: argparse.Namespace) -> str:
    """How one run of a cell is made by itself."""
    algorithm, *flags = settings(plan, row, column, arguments)
    return shlex.join(["searnn", "train", plan.rows[row].task, "--algorithm", algorithm, *flags, "--seed", "N"])
