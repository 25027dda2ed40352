"""`searnn eval RUN`: the task's metrics of a trained model, by free decoding."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn.cli.parser import count
from searnn.reports.tables import metrics_table
from searnn.runs import SPLITS, load


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "measure the best model of a run"
    parser = commands.add_parser("eval", help=text, description=text.capitalize() + ".")
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("--split", choices=SPLITS, metavar="NAME", default="test", help="valid or test [test]")
    parser.add_argument("--beam", metavar="N", type=count, default=1, help="beam width; 1 is greedy [1]")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.set_defaults(command=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Decode the whole split and print what the task measures."""
    loaded = load(arguments.run, device=arguments.device)
    metrics = loaded.evaluate(arguments.split, beam=arguments.beam)
    signature = getattr(loaded.task, "signature", None)  # of a metric that has several definitions
    signed = {"signature": signature} if signature else {}
    if arguments.json:
        asked = {"run": str(arguments.run), "split": arguments.split, "beam": arguments.beam}
        print(json.dumps({**asked, "metrics": metrics, **signed}, allow_nan=False))
    else:
        print(f"{arguments.run}: {arguments.split}, beam {arguments.beam}")
        Console().print(metrics_table(metrics))
        for name, value in signed.items():
            print(f"{name}: {value}")
    return 0
