"""`searnn eval RUN`: the task's metrics of a trained model, by free decoding."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn import files
from searnn.cli.parsers import (
    add_command,
    add_device,
    add_length_penalty,
    add_mbr,
    add_run,
    add_trust,
    check_place,
    length_penalty,
    named,
)  # fmt: skip
from searnn.config import trust
from searnn.config.parser import counts
from searnn.interfaces import Signed
from searnn.reports.outputs import Outputs, as_tsv
from searnn.reports.rendering import metrics_table
from searnn.runs.run import SPLITS, opened
from searnn.tasks.common.splits import judged_on
from searnn.tasks.common.text import TextTask
from searnn.types import SearnnError


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "eval", run, "measure the best model of a run, or an ensemble of several")
    add_run(parser, several=True)
    parser.add_argument("--split", choices=SPLITS, metavar="NAME", help="valid or test [test, where there is any]")
    told = "test data in place of the run's: pairs of lines, one file with tabs, or sources and targets"
    parser.add_argument("--test", metavar="FILE", type=Path, nargs="+", help=told)
    told = "beam width, or several such as 1,5; 1 is greedy [1]"
    parser.add_argument("--beam", metavar="N", type=counts, default=[1], help=told)
    add_length_penalty(parser)
    add_mbr(parser)
    told = "write source, output, target, edits and number of every example here"
    parser.add_argument("--predictions", metavar="FILE", type=Path, help=told)
    add_device(parser)
    add_trust(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Decode the whole split and print what the task measures: with --json a line for each way of decoding."""
    place = arguments.predictions
    if arguments.test is not None and arguments.split == "valid":
        raise SearnnError("--split valid and --test are two sets of data: leave one of them out")
    if place is not None:
        check_place("predictions", place)
    penalty = length_penalty(arguments, max(arguments.beam))
    loaded = opened(arguments.run, "best", arguments.device, arguments.trust_code, [trust.METRIC])
    task = loaded.task
    if arguments.test is not None:
        if not isinstance(task, TextTask):
            raise SearnnError(f"--test does not apply here: {task.name} is no task on pairs of lines")
        task.take_test(arguments.test)
    split = arguments.split or judged_on(task)
    if split != (arguments.split or "test"):
        print("searnn: there is no test data, so it is measured on validation data", file=sys.stderr)
    penalised = {} if arguments.length_penalty is None else {"length_penalty": penalty}
    ways: dict[str, dict[str, Any]] = {
        f"beam {beam}": {"beam": beam} | (penalised if beam > 1 else {}) for beam in arguments.beam
    }
    ways |= {f"MBR {arguments.mbr}": {"mbr": arguments.mbr}} if arguments.mbr is not None else {}
    written: dict[str, Outputs] = {}
    for way, asked in ways.items():
        if place is None and "mbr" not in asked:
            metrics = loaded.evaluate(split, **asked)
        else:
            written[way] = loaded.outputs(split, **asked)
            metrics = dict(written[way].metrics)
        signature = task.signature if isinstance(task, Signed) else None  # known once it is measured
        signed = {"signature": signature} if signature else {}
        if arguments.json:
            about = {"run": named(arguments.run), "split": split, **asked}
            print(json.dumps({**about, "metrics": metrics, **signed}, allow_nan=False))
        else:
            print(f"{named(arguments.run)}: {split}, {way}")
            Console().print(metrics_table(metrics))
            for name, value in signed.items():
                print(f"{name}: {value}")
    if place is not None:
        first, *others = written
        files.write(place, as_tsv(written[first], task, {way: written[way] for way in others}).encode())
    return 0
