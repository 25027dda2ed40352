"""What the scripts beside this one share: their flags, which are those of `searnn bench`, and how they are run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from searnn.bench import measuring
from searnn.cli.bench import Shown, add_flags, check_flags, conclude
from searnn.cli.main import guarded

Measure = Callable[[argparse.Namespace, torch.device, dict[str, Any], Shown], None]


def flags(text: str | None) -> argparse.ArgumentParser:
    """A parser with the flags that say where and how long something is measured."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_flags(parser)
    return parser


def execute(parser: argparse.ArgumentParser, measure: Measure, words: Sequence[str] | None = None) -> int:
    """Let `measure` fill the report and show its tables; after Ctrl-C there is what was found so far."""

    def command() -> int:
        arguments = parser.parse_args(words)
        device, engine = check_flags(arguments)
        with Shown() as shown, measuring(device, arguments.threads, engine) as report:
            measure(arguments, device, report, shown)
        given = sys.argv[1:] if words is None else words
        return conclude(report, arguments.json, ["python", f"benchmarks/{Path(sys.argv[0]).name}", *given])

    return guarded(command)
