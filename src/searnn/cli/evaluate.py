"""`searnn eval RUN`: the task's metrics of a trained model, by free decoding."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn.config.parser import counts
from searnn.reports.rendering import metrics_table
from searnn.runs.run import SPLITS, Run, load


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "measure the best model of a run"
    parser = commands.add_parser("eval", help=text, description=text.capitalize() + ".")
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("--split", choices=SPLITS, metavar="NAME", default="test", help="valid or test [test]")
    told = "beam width, or several such as 1,5; 1 is greedy [1]"
    parser.add_argument("--beam", metavar="N", type=counts, default=[1], help=told)
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(command=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Decode the whole split and print what the task measures: with --json a line for each beam width."""
    loaded = load(arguments.run, device=arguments.device)
    for beam in arguments.beam:
        tell(arguments, loaded, beam)
    return 0


def tell(arguments: argparse.Namespace, loaded: Run, beam: int) -> None:
    """Measure with one beam width."""
    metrics = loaded.evaluate(arguments.split, beam=beam)
    signature = getattr(loaded.task, "signature", None)  # of a metric that has several definitions
    signed = {"signature": signature} if signature else {}
    if arguments.json:
        asked = {"run": str(arguments.run), "split": arguments.split, "beam": beam}
        print(json.dumps({**asked, "metrics": metrics, **signed}, allow_nan=False))
    else:
        print(f"{arguments.run}: {arguments.split}, beam {beam}")
        Console().print(metrics_table(metrics))
        for name, value in signed.items():
            print(f"{name}: {value}")
