"""`searnn reproduce table1`: a table of the paper, run anew, beside its numbers.

`ablations` has what the paper only mentions, `algorithms` every method with the same time, `translation` what else was
tried on table 3, `ocr` what was tried on OCR, `folds` OCR over all of its data, `sigmorphon2021` twenty languages.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from searnn.cli.parsers import add_command
from searnn.config.parser import count, flag_words, whole
from searnn.jobs import experiments
from searnn.jobs.reproduction import Reproduction

QUICKLY = "a small budget, for a look on a CPU; without a beam, and of table3 the paper's columns"
NOTES = (
    "The same command again goes on with what is not finished, and shows the table as far as it is, with what "
    "other commands have made in that folder. Under torchrun, or with --share, every process takes its share of "
    "the runs; give all of them the same --out."
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "reproduce", run, "run a table of the paper anew, beside its numbers", NOTES)
    names = experiments.TABLES
    parser.add_argument("table", choices=names, metavar="TABLE", help=", ".join(names))
    parser.add_argument(
        "--seeds", metavar="N", type=count, help="runs of each entry [3, of sigmorphon2021 5; with --quick 1]"
    )
    parser.add_argument("--first-seed", metavar="N", type=whole, default=0, help="seed of the first of them [0]")
    parser.add_argument("--quick", action="store_true", help=QUICKLY)
    told = "rows, columns or ROW:COLUMN: a name or a part of it"
    parser.add_argument("--only", metavar="TEXT", nargs="+", default=(), help=told)
    told = "settings of searnn train for all runs (a single word by --settings=--windows)"
    parser.add_argument("--settings", metavar="FLAGS", type=flag_words, default=(), help=told)
    parser.add_argument("--jobs", metavar="N", type=count, help="runs at a time [as many as there are CPU cores]")
    told = "take only the I-th of N shares of the runs, counted from 0"
    parser.add_argument("--share", metavar="I/N", type=share, help=told)
    told = "folder of the runs [runs/reproduce-TABLE, with --quick runs/reproduce-TABLE-quick]"
    parser.add_argument("--out", metavar="FOLDER", type=Path, help=told)
    parser.add_argument("--list", action="store_true", help="print the commands and run nothing")


def share(text: str) -> tuple[int, int]:
    """Which share of how many."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError(f"must be I/N with I from 0 to N - 1, such as 0/4, got {text!r}")
    return int(found[1]), int(found[2])


def run(arguments: argparse.Namespace) -> int:
    """Run what is missing and show the table, or list what would be run."""
    name, quick, first = arguments.table, arguments.quick, arguments.first_seed
    table = experiments.read(name)
    number = arguments.seeds or (1 if quick else table.seeds)
    out = arguments.out or Path("runs", f"reproduce-{name}{'-quick' if quick else ''}")
    seeds = range(first, first + number)
    wanted = Reproduction(name, table, seeds, out, quick, arguments.only, arguments.settings)
    if not arguments.list:
        return wanted.run(arguments.jobs, arguments.share)
    for row, methods in wanted.chosen().items():
        print(row, *(f"  {method.label}: {wanted.command(row, method)}" for method in methods), sep="\n")
    return 0
