"""`searnn bench`: how long a step takes beside maximum likelihood in plain PyTorch, and where the time goes."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from searnn import __version__
from searnn.bench import SETTINGS, Benchmark, Watch, on_device, rendering, run
from searnn.bench.running import PRETRAINED
from searnn.cli.parsers import check_place
from searnn.config.parser import count, threads
from searnn.engine import PRECISIONS, Engine
from searnn.files import write
from searnn.training import find_device
from searnn.training.devices import check_engine
from searnn.types import SearnnError

QUICK = 3  # timed steps
WIDTH = 160  # room for a table, on a narrow terminal too: rather broken lines than lost numbers
EVERY = 10.0  # seconds between lines of progress where there is no terminal
MOVED = {"scale": "benchmarks/growth.py", "costs": "benchmarks/costs.py"}  # flags that became scripts
NOTES = (
    "Without names all settings are timed. The data is random, of the sizes of the paper's tasks. "
    "docs/performance.md explains every number."
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "time training steps, and say where the time goes"
    parser = commands.add_parser("bench", help=text, description=text.capitalize() + ".", epilog=NOTES)
    add_settings(parser)
    add_flags(parser)
    for flag in MOVED:
        parser.add_argument(f"--{flag}", action="store_true", help=argparse.SUPPRESS)
    parser.set_defaults(command=execute, parser=parser)


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Flags that say which settings are measured."""
    names = list(SETTINGS)
    parser.add_argument("settings", metavar="SETTING", nargs="*", choices=names, help=", ".join(names) + " [all]")
    parser.add_argument("--real", action="store_true", help="the tasks' real data, after some training")
    parser.add_argument("--pretrain", metavar="N", type=count, help=f"its updates, with --real [{PRETRAINED}]")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK} timed steps")
    parser.add_argument("--batch-size", metavar="N", type=count, help="examples per step [the setting's]")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that say where and how long something is measured."""
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to this file too")
    parser.add_argument("--steps", metavar="N", type=count, help="timed rounds [as many as suit what is timed]")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    parser.add_argument("--threads", metavar="N", type=threads, help="CPU threads [as torch chooses]")
    kinds = ["auto", "plain"]
    parser.add_argument("--engine", metavar="NAME", choices=kinds, default="auto", help="auto, or plain code [auto]")
    parser.add_argument(
        "--precision", metavar="NAME", choices=PRECISIONS, default="float32",
        help=f"of the search on a GPU: {', '.join(PRECISIONS)} [float32]",
    )  # fmt: skip


def execute(arguments: argparse.Namespace) -> int:
    """Measure, show every table as soon as it is there, write the file."""
    for flag, script in MOVED.items():
        if vars(arguments)[flag]:
            raise SearnnError(f"--{flag} is now a script of the repository: python {script}")
    benchmark = make_benchmark(arguments)
    with Shown() as shown:
        report = run(benchmark, shown)
    return conclude(report, arguments.json, ["searnn", *arguments.words])


def make_benchmark(arguments: argparse.Namespace) -> Benchmark:
    """What the flags ask for."""
    device, engine = check_flags(arguments)
    if arguments.quick and arguments.steps is not None:
        raise SearnnError("--quick is a number of steps: leave it out with --steps")
    if arguments.pretrain is not None and not arguments.real:
        raise SearnnError("--pretrain is for real data: give --real too")
    settings = [on_device(name, device) for name in dict.fromkeys(arguments.settings or SETTINGS)]
    if arguments.batch_size is not None:
        settings = [replace(setting, batch_size=arguments.batch_size) for setting in settings]
    return Benchmark(
        tuple(settings),
        real=arguments.real,
        rounds=QUICK if arguments.quick else arguments.steps,
        device=device,
        threads=arguments.threads,
        engine=engine,
        pretrained=arguments.pretrain or PRETRAINED,
    )


def check_flags(arguments: argparse.Namespace) -> tuple[torch.device, Engine]:
    """The device and the engine; refuses what they cannot do, and a file that could not be written."""
    device = find_device(arguments.device)
    engine = Engine(arguments.engine, arguments.precision)
    check_engine(engine, device)
    if device.type == "cpu" and engine.precision != "float32":
        raise SearnnError(f"--precision {engine.precision} is for the search on a GPU, the device is cpu")
    if arguments.json is not None:
        check_place("json", arguments.json)
    return device, engine


def conclude(report: dict[str, Any], path: Path | None, words: Sequence[str]) -> int:
    """Print what the numbers depend on, write the file; the exit status."""
    print(rendering.machine_line(report["machine"]))
    for told in report["paths"]:
        print(told)
    if path is not None:
        report = {"command": shlex.join(words), "searnn": __version__, **report}
        write(path, f"{json.dumps(report, indent=1, allow_nan=False)}\n".encode())
    if report["interrupted"]:
        print("searnn: interrupted: these are the numbers so far", file=sys.stderr)
        return 130
    return 0


class Shown(Watch):
    """Shows on the error output how far it is, and prints every table as soon as it is there."""

    def __init__(self) -> None:
        self.out, self.err = Console(width=max(Console().width, WIDTH)), Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=self.err, transient=True)
        self.text, self.done, self.parts, self.told = "", 0, 0, time.monotonic()

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def stage(self, text: str, parts: int) -> None:
        """Something begins."""
        self.text, self.done, self.parts = text, 0, parts
        if self.err.is_terminal:
            for task in self.bar.task_ids:
                self.bar.remove_task(task)
            self.bar.start()
            self.bar.add_task(text, total=parts)
        else:
            self._tell()

    def advance(self) -> None:
        """A part of it is done."""
        self.done += 1
        if self.err.is_terminal:
            self.bar.advance(self.bar.task_ids[-1])
        elif time.monotonic() - self.told > EVERY:
            self._tell()

    def note(self, text: str) -> None:
        """Something that should be known."""
        self.err.print(text, highlight=False, markup=False, soft_wrap=True)

    def found(self, result: dict[str, Any]) -> None:
        """A setting is measured."""
        self.show(rendering.setting_table(result), rendering.setting_title(result))

    def show(self, table: Table, title: str | None = None) -> None:
        """Print a table."""
        self._stop()
        if title is not None:
            self.out.print(title, highlight=False, markup=False, soft_wrap=True)
        self.out.print(table, highlight=False)

    def _tell(self) -> None:
        self.told = time.monotonic()
        self.note(f"{self.text}: {self.done} of {self.parts}")

    def _stop(self) -> None:
        if self.err.is_terminal:
            self.bar.stop()
