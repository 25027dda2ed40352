"""What the parsers of several commands have in common."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from searnn.config import flags
from searnn.config.parser import Parser, count, power
from searnn.config.registry import AXES
from searnn.types import SearnnError

Command = Callable[[argparse.Namespace], int]


def add_command(commands: Any, name: str, command: Command, text: str, notes: str | None = None) -> Parser:
    """A command's parser, still without arguments."""
    parser: Parser = commands.add_parser(name, help=text, description=text.capitalize() + ".", epilog=notes)
    parser.set_defaults(command=command, parser=parser)
    return parser


def add_tasks(
    parser: Parser, name: str, usage: str, notes: str, command: Command, without: Collection[str] = ()
) -> Iterator[tuple[str, Parser]]:
    """A parser for each task, with a flag for every setting but those `without` once it is needed."""
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    for task, member in AXES["task"].items():
        about = (member.__doc__ or "").split(";")[0].split("\n")[0].rstrip(".")
        told = f"searnn {name} {task} {usage}"
        one: Parser = tasks.add_parser(task, help=about, usage=told, description=f"{about}.", epilog=notes)
        one.fill = partial(flags.add_settings, one, task, without=without)
        one.set_defaults(command=command, parser=one, task=task)
        yield task, one


def add_run(parser: Parser, *, several: bool = False) -> None:
    """The run that a command is about, or several that are one model."""
    if several:
        told = "folder of the run; of several the mean of the probabilities is taken"
        parser.add_argument("run", metavar="RUN", type=Path, nargs="+", help=told)
    else:
        parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run")


def named(runs: Sequence[Path]) -> str:
    """The runs as one name."""
    return " + ".join(map(str, runs))


def add_length_penalty(parser: Any) -> None:
    """Add the flag that says how a beam compares outputs of different lengths."""
    told = "a beam orders outputs by their log-probability over their length to this power; 0 favours short ones [1]"
    parser.add_argument("--length-penalty", metavar="X", type=power, help=told)


def add_mbr(parser: Any) -> None:
    """Add the flag that asks for minimum-Bayes-risk decoding."""
    told = "by minimum Bayes risk: of N samples, the greedy output and a beam's, the one nearest to all samples"
    parser.add_argument("--mbr", metavar="N", type=count, help=told)


def length_penalty(arguments: argparse.Namespace, beam: int) -> float:
    """What was given, which asks for a beam; else 1."""
    if arguments.length_penalty is None:
        return 1.0
    if beam == 1:
        raise SearnnError("--length-penalty does not apply here: it belongs to --beam of at least 2")
    return float(arguments.length_penalty)


def add_trust(box: Any, told: str = "import the code that the run names as package.module:Name") -> None:
    """The leave to run code that a run names."""
    box.add_argument("--trust-code", action="store_true", help=told)


def add_device(parser: Parser) -> None:
    """The device that a command computes on."""
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu, cuda or cuda:N [auto]")


def check_place(flag: str, path: Path) -> None:
    """Refuse a file that could not be written, before any work is done for it."""
    folder = path.absolute().parent
    if not folder.is_dir() or (path.exists() and not path.is_file()):
        raise SearnnError(f"--{flag} {path}: it must be a file in a folder that is there")
    if not os.access(folder, os.W_OK | os.X_OK):  # it is written beside its place and moved there
        raise SearnnError(f"--{flag} {path} cannot be written: give a file in a folder you may write to")
