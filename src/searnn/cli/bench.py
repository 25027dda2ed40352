"""`searnn bench`: how long a step takes, where the time goes, and how near that is to what the machine could do."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from searnn import __version__
from searnn.bench import SETTINGS, Plan, on_device, run, tables
from searnn.bench.running import PRETRAINED
from searnn.config.parser import count
from searnn.engine import PRECISIONS, Engine
from searnn.training import find_device
from searnn.training.devices import check_engine
from searnn.types import SearnnError

QUICK = 3  # timed steps
WIDTH = 160  # room for a table, on a narrow terminal too: rather broken lines than lost numbers
EVERY = 10.0  # seconds between lines of progress where there is no terminal
NOTES = (
    "Without --scale and --costs all settings are timed; with one of them, those that are named. The data is random, "
    "of the sizes of the paper's tasks. docs/performance.md explains every number."
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "time training steps, and what they are beside the machine's best"
    parser = commands.add_parser("bench", help=text, description=text.capitalize() + ".", epilog=NOTES)
    names = list(SETTINGS)
    parser.add_argument("settings", metavar="SETTING", nargs="*", choices=names, help=", ".join(names) + " [all]")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write everything to this file too")
    parser.add_argument("--real", action="store_true", help="the tasks' real data, after some training")
    parser.add_argument("--pretrain", metavar="N", type=count, help=f"its updates, with --real [{PRETRAINED}]")
    parser.add_argument("--scale", action="store_true", help="how time and memory grow with T, V, K, C, B and D")
    parser.add_argument("--costs", action="store_true", help="pairs per second of the costs, beside other libraries")
    parser.add_argument("--steps", metavar="N", type=count, help="timed steps of each row [as suits the setting]")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK} timed steps")
    parser.add_argument("--batch-size", metavar="N", type=count, help="examples per step [the setting's]")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    parser.add_argument("--threads", metavar="N", type=count, help="CPU threads [as torch chooses]")
    kinds = ["auto", "plain"]
    parser.add_argument("--engine", metavar="NAME", choices=kinds, default="auto", help="auto, or plain code [auto]")
    parser.add_argument(
        "--precision", metavar="NAME", choices=PRECISIONS, default="float32",
        help=f"of the search on a GPU: {', '.join(PRECISIONS)} [float32]",
    )  # fmt: skip
    parser.set_defaults(command=execute, parser=parser)


def execute(arguments: argparse.Namespace) -> int:
    """Measure, show every table as soon as it is there, write the file."""
    plan = make_plan(arguments)
    if arguments.json is not None:
        check_writable(arguments.json)
    with Shown() as shown:
        report = run(plan, shown)
    print(tables.machine_line(report["machine"]))
    for path in report["paths"]:
        print(path)
    if arguments.json is not None:
        report = {"command": shlex.join(["searnn", *arguments.words]), "searnn": __version__, **report}
        arguments.json.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n")
    if report["interrupted"]:
        print("searnn: interrupted: these are the numbers so far", file=sys.stderr)
        return 130
    return 0


def make_plan(arguments: argparse.Namespace) -> Plan:
    """What the flags ask for."""
    device = find_device(arguments.device)
    if arguments.quick and arguments.steps is not None:
        raise SearnnError("--quick is a number of steps: leave it out with --steps")
    engine = Engine(arguments.engine, arguments.precision)
    check_engine(engine, device)
    if device.type == "cpu" and arguments.precision != "float32":
        raise SearnnError(f"--precision {arguments.precision} is for the search on a GPU, the device is cpu")
    if arguments.pretrain is not None and not arguments.real:
        raise SearnnError("--pretrain is for real data: give --real too")
    others = arguments.scale or arguments.costs
    names = arguments.settings or ([] if others else list(SETTINGS))
    for flag, given in (("--real", arguments.real), ("--batch-size", arguments.batch_size)):
        if given and not names:
            raise SearnnError(f"{flag} changes the settings, none is timed: name one, or leave it out")
    settings = [on_device(name, device) for name in dict.fromkeys(names)]
    if arguments.batch_size is not None:
        settings = [replace(setting, batch_size=arguments.batch_size) for setting in settings]
    return Plan(
        tuple(settings),
        real=arguments.real,
        scale=arguments.scale,
        costs=arguments.costs,
        rounds=QUICK if arguments.quick else arguments.steps,
        device=device,
        threads=arguments.threads,
        engine=engine,
        pretrained=arguments.pretrain or PRETRAINED,
    )


def check_writable(path: Path) -> None:
    """Refuse a file that could not be written, before anything is measured."""
    place = path if path.exists() else path.absolute().parent
    if path.is_dir() or not place.exists():
        raise SearnnError(f"--json {path}: it must be a file in a folder that is there")
    if not os.access(place, os.W_OK):
        raise SearnnError(f"--json {path} must not be written: give another file")


class Shown:
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

    def found(self, kind: str, part: Mapping[str, Any]) -> None:
        """A result is there."""
        self._stop()
        titles = {"setting": tables.setting_title, "scale": tables.scale_title}
        made = {"setting": tables.setting_table, "scale": tables.scale_table, "costs": tables.costs_table}
        if kind in titles:
            self.out.print(titles[kind](part), highlight=False, markup=False, soft_wrap=True)
        self.out.print(made[kind](part), highlight=False)

    def _tell(self) -> None:
        self.told = time.monotonic()
        self.note(f"{self.text}: {self.done} of {self.parts}")

    def _stop(self) -> None:
        if self.err.is_terminal:
            self.bar.stop()
