"""`searnn reproduce table1`: a table of the paper, run anew, beside its numbers.

`ablations` has what the paper only mentions, `algorithms` every method with the same time, `translation` what else was
tried on table 3, `ocr` what was tried on OCR, `folds` OCR over all of its data.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn.config import from_flags, resolve
from searnn.config.parser import count, flag_words, whole
from searnn.jobs import tables
from searnn.jobs.planning import Entry, checked, finished, make_jobs, own_settings
from searnn.jobs.running import run_jobs, wide_console
from searnn.jobs.side_by_side import Beside, Job
from searnn.jobs.tables import TABLES, Plan
from searnn.reports.comparison import slug
from searnn.reports.reproduction import QUICK, Reproduced, TableEntry, recorded, write
from searnn.training.state import held
from searnn.training.world import launched
from searnn.types import SearnnError

Place = tuple[str, str]  # of a cell: its row and its column
QUICKLY = "a small budget, for a look on a CPU; without a beam, and of table3 the paper's columns"


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
    parser.add_argument("--quick", action="store_true", help=QUICKLY)
    parser.add_argument("--only", metavar="TEXT", nargs="+", help="rows, columns or ROW:COLUMN: a name or a part of it")
    text = "settings of searnn train for all runs (a single word by --settings=--windows)"
    parser.add_argument("--settings", metavar="FLAGS", type=flag_words, default=(), help=text)
    parser.add_argument("--jobs", metavar="N", type=count, help="runs at a time [as many as there are CPU cores]")
    text = "take only the I-th of N parts of the runs, counted from 0"
    parser.add_argument("--share", metavar="I/N", type=share, help=text)
    text = "folder of the runs [runs/reproduce-TABLE, with --quick runs/reproduce-TABLE-quick]"
    parser.add_argument("--out", metavar="FOLDER", type=Path, help=text)
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")
    parser.set_defaults(command=run, parser=parser)


def share(text: str) -> tuple[int, int]:
    """Which part of how many."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"must be I/N with I from 0 to N - 1, such as 0/4, got {text!r}")
    return int(found[1]), int(found[2])


def run(arguments: argparse.Namespace) -> int:
    """Run what is missing, and show the table."""
    plan = tables.read(arguments.table)
    for text in arguments.only or ():
        if not any(plan.chosen(row, [text]) for row in plan.rows):
            raise SearnnError(f"--only {text}: {arguments.table} has no such cell; --list shows all")
    chosen = {row: found for row in plan.rows if (found := entries(plan, row, arguments))}
    if not chosen:
        raise SearnnError(f"{arguments.table} has no cells to run: choose some with --only; --list shows all")
    if arguments.list:
        for row, found in chosen.items():
            print(row, *(f"  {entry.label}: {command(plan, row, entry, arguments)}" for entry in found), sep="\n")
        return 0
    return run_table(plan, chosen, arguments)


def run_table(plan: Plan, chosen: Mapping[str, list[Entry]], arguments: argparse.Namespace) -> int:
    """The exit status, once all runs of this process have come to their end and the table is written."""
    console, world = wide_console(), launched()
    tell = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    if arguments.share is not None and world.size > 1:
        raise SearnnError("under torchrun every process takes its own part: leave out --share")
    part, parts = arguments.share or (world.rank, world.size)
    out = arguments.out or Path("runs", f"reproduce-{arguments.table}{'-quick' if arguments.quick else ''}")
    metrics = read_data(chosen, console, advise=not arguments.only)
    earlier_cells(arguments, out, metrics)  # refuses what cannot be joined, before anything is run
    number = arguments.seeds or (1 if arguments.quick else 3)
    seeds = range(arguments.first_seed, arguments.first_seed + number)
    beam = 1 if arguments.quick else plan.beam
    jobs = {row: make_jobs(found, seeds, out / slug(row), beam) for row, found in chosen.items()}
    own = [job for found in jobs.values() for job in found][part::parts]
    told = "" if parts == 1 else f" (part {part} of {parts})"
    beside = Beside(world.local_rank, world.local_size)
    if run_jobs(console, own, arguments.jobs, out, told=told, beside=beside).interrupted:
        return 130
    with held(out, wait=True):  # who ends last writes all that is there
        now = {}
        for row, found in chosen.items():
            for entry in found:
                of_cell = [job for job in jobs[row] if job.label == entry.label]
                paper = plan.rows[row].papers_number(entry.label, entry.config.flat())
                given = command(plan, row, entry, arguments)
                now[row, entry.label] = as_cell(row, given, paper, of_cell, metrics[row])
        table = joined(plan, arguments, earlier_cells(arguments, out, metrics), now, tell)
        written = write(table, out, tell)
    missing = sum(cell.missing for cell in now.values())
    if others := world.size > 1 and missing > 0:
        tell(f"{missing} of the runs of other ranks to come; the last rank to end shows the table")
    else:
        console.print(table.terminal(console))
    tell("written: " + ", ".join(str(path) for path in written))
    failed = any(cell.failed for cell in now.values())
    return 1 if failed and not others else 0  # torchrun would end the others


def read_data(chosen: Mapping[str, list[Entry]], console: Console, advise: bool) -> dict[str, str]:
    """The metric of each data set; all that can be refused before a long run is, with advice how to do without it."""
    found = {}
    for row, of_row in chosen.items():
        try:
            found[row] = checked(of_row, console).metric
        except SearnnError as error:
            others = [other for other in chosen if other != row]
            told = f"; without it: --only {shlex.join(others)}" if advise and others else ""
            raise SearnnError(f"{row}: {error}{told}") from error
    return found


def entries(plan: Plan, row: str, arguments: argparse.Namespace) -> list[Entry]:
    """The cells of a row that are wanted, each with its complete settings."""
    task, found = plan.rows[row].task, []
    for column in plan.chosen(row, arguments.only or (), arguments.quick):
        try:
            given = own_settings(task, plan.settings(row, column, arguments.quick, arguments.settings))
            given = {**given, "name": task, "seed": str(arguments.first_seed)}
            found.append(Entry(column, resolve(from_flags(given))))
        except SearnnError as error:
            raise SearnnError(f"{row}, {column}: {error}") from error
    return found


def command(plan: Plan, row: str, entry: Entry, arguments: argparse.Namespace) -> str:
    """How one run of a cell is made by itself; with what follows from the data that are there."""
    about, found = plan.rows[row], entry.config.flat()
    more = [f"--{'' if found[name] else 'no-'}{name}" for name in about.paper_needs]
    algorithm, *flags = plan.settings(row, entry.label, arguments.quick, [*arguments.settings, *more])
    return shlex.join(["searnn", "train", about.task, "--algorithm", algorithm, *flags, "--seed", "N"])


def as_cell(row: str, given: str, paper: float | None, jobs: list[Job], metric: str) -> TableEntry:
    """What has come of the runs of one cell, each with another seed."""
    failed = {job.seed: why for job in jobs if (why := job.failure()) is not None}
    return TableEntry(
        row, jobs[0].label, given, paper, metric, finished(jobs, metric), [job.seed for job in jobs], failed
    )


def earlier_cells(arguments: argparse.Namespace, out: Path, metrics: Mapping[str, str]) -> list[TableEntry]:
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
    earlier: Iterable[TableEntry],
    now: Mapping[Place, TableEntry],
    tell: Callable[[str], None],
) -> Reproduced:
    """The table of these cells and of earlier ones, as far as the table still has them."""
    there = {(cell.row, cell.column): cell for cell in earlier}
    for place, cell in now.items():
        before = there.get(place, cell)
        if before.results and before.command != cell.command:
            told = f"what earlier runs have (seeds {', '.join(str(run.seed) for run in before.results)})"
            tell(f"{', '.join(place)}: {told} is left out, their settings were others: {before.command}")
    cells = {**there, **{place: cell.joined(there.get(place)) for place, cell in now.items()}}
    found = [cells[row, column] for row in plan.rows for column in plan.columns if (row, column) in cells]
    return Reproduced(
        name=arguments.table,
        title=plan.title,
        note=note(plan, arguments, found, same=cells.keys() == now.keys()),
        unit=plan.unit,
        scale=plan.scale,
        entries=found,
        order=list(plan.columns),
        mean_of_rows=plan.mean_of_rows,
        quick=arguments.quick,
    )


def note(plan: Plan, arguments: argparse.Namespace, cells: Sequence[TableEntry], same: bool) -> str:
    """What is to be known of the numbers; `same` where all are this command's."""
    told = [QUICK] if arguments.quick else []
    told += [f"Test {plan.unit}, {over(cells)}; best model by validation."]
    told += [f"All with {shlex.join(arguments.settings)}."] if arguments.settings and same else []
    told += [plan.note] if plan.note else []
    apart = [cell.row for cell in cells if cell.paper is None and cell.column in plan.rows[cell.row].paper]
    told += [f"{', '.join(dict.fromkeys(apart))}: other data than the paper's, without its numbers."] if apart else []
    return " ".join(told)


def over(cells: Iterable[TableEntry]) -> str:
    """What the numbers of these cells are taken over."""
    seeds = {tuple(sorted([*(result.seed for result in cell.results), *cell.failed])) for cell in cells} - {()}
    if not seeds:
        return "no run has come to its end"
    first, last = min(map(min, seeds)), max(map(max, seeds))
    if len(seeds) > 1:
        return f"mean and range over each cell's own seeds, from {first} to {last}"
    return f"mean and range over the seeds {first} to {last}" if first < last else f"seed {first}"
