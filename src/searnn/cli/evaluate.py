"""`searnn eval RUN`: the task's metrics of a trained model, by free decoding."""

from __future__ import annotations

import argparse
import json
from typing import Any

from rich.console import Console

from searnn.cli.parsers import add_command, add_device, add_run, add_trust
from searnn.config import trust
from searnn.config.parser import counts
from searnn.interfaces import Signed
from searnn.reports.rendering import metrics_table
from searnn.runs.run import SPLITS, opened


def add(commands: Any) -> None:
    """Add the command's parser."""
    parser = add_command(commands, "eval", run, "measure the best model of a run")
    add_run(parser)
    parser.add_argument("--split", choices=SPLITS, metavar="NAME", default="test", help="valid or test [test]")
    told = "beam width, or several such as 1,5; 1 is greedy [1]"
    parser.add_argument("--beam", metavar="N", type=counts, default=[1], help=told)
    add_device(parser)
    add_trust(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Decode the whole split and print what the task measures: with --json a line for each beam width."""
    loaded = opened(arguments.run, "best", arguments.device, arguments.trust_code, [trust.METRIC])
    for beam in arguments.beam:
        metrics = loaded.evaluate(arguments.split, beam=beam)
        signature = loaded.task.signature if isinstance(loaded.task, Signed) else None  # known once it is measured
        signed = {"signature": signature} if signature else {}
        if arguments.json:
            asked = {"run": str(arguments.run), "split": arguments.split, "beam": beam}
            print(json.dumps({**asked, "metrics": metrics, **signed}, allow_nan=False))
        else:
            print(f"{arguments.run}: {arguments.split}, beam {beam}")
            Console().print(metrics_table(metrics))
            for name, value in signed.items():
                print(f"{name}: {value}")
    return 0
