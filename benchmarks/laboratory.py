"""What floors, growth and costs share: the flags of `searnn bench`, and how they are run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from searnn.bench import measuring
from searnn.cli.bench import Shown, add_flags, check_flags, conclude
from searnn.cli.program import guarded
from searnn.config.parser import Parser

Measure = Callable[[argparse.Namespace, torch.device, dict[str, Any], Shown], None]


def flags(text: str | None) -> Parser:
    """A parser with the flags that say where and how long something is measured."""
    parser = Parser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser)
    return parser


def execute(parser: Parser, measure: Measure, words: Sequence[str] | None = None) -> int:
    """Let `measure` fill the report and show its tables; after Ctrl-C there is what was found so far."""

    def command() -> int:
        arguments = parser.parse(words)
        device, engine = check_flags(arguments)
        with Shown() as shown, measuring(device, arguments.threads, engine) as report:
            measure(arguments, device, report, shown)
        return conclude(report, arguments.json, ["python", f"benchmarks/{Path(sys.argv[0]).name}", *arguments.words])

    return guarded(command)
