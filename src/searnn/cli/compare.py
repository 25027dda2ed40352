"""`searnn compare TASK`: several algorithms with the same budget and several seeds, side by side, in one table."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from searnn.cli.parsers import add_length_penalty, add_tasks, length_penalty
from searnn.config import flags
from searnn.config.parser import count, whole
from searnn.jobs.comparison import compare, methods_of
from searnn.jobs.methods import APART

NOTES = (
    "An algorithm may carry settings of its own, as in --algorithms 'mle,searnn,searnn --loss ll --roll-in reference'. "
    "The other settings, which are those of searnn train, go to all algorithms that take them. All runs have the same "
    "budget: --steps or --minutes, else the steps of the task's recipe. The same command again goes on with what is "
    "not finished."
)


def add(commands: Any) -> None:
    """Add the command's parser: one for each task, since the defaults are the task's."""
    text = "train by several algorithms and compare them"
    parser = commands.add_parser("compare", help=text, description=text.capitalize() + ".")
    usage = "--algorithms NAME,NAME,... [settings]"
    for name, one in add_tasks(parser, "compare", usage, NOTES, run, without=APART):
        box = one.add_argument_group("comparison")
        told = "what is compared, e.g. mle,searnn,'searnn --loss ll'"
        box.add_argument("--algorithms", metavar="NAME", nargs="+", required=True, help=told)
        box.add_argument("--seeds", metavar="N", type=count, default=3, help="runs of each algorithm [3]")
        box.add_argument("--first-seed", metavar="N", type=whole, default=0, help="seed of the first of them [0]")
        box.add_argument("--beam", metavar="N", type=count, default=1, help="test with a beam of N, too")
        add_length_penalty(box)
        box.add_argument("--jobs", metavar="N", type=count, help="runs at a time [as many as there are CPU cores]")
        out = Path("runs", f"compare-{name}")
        box.add_argument("--out", metavar="FOLDER", type=Path, default=out, help=f"folder of the runs [{out}]")


def run(arguments: argparse.Namespace) -> int:
    """Train all, measure all, and show what came out."""
    first, command = arguments.first_seed, shlex.join(["searnn", *arguments.words])
    methods = methods_of(arguments.task, arguments.algorithms, flags.given(arguments), first)
    seeds = range(first, first + arguments.seeds)
    decoding: dict[str, Any] = {"beam": arguments.beam, "length_penalty": length_penalty(arguments, arguments.beam)}
    return compare(methods, seeds, arguments.out, command, **decoding, at_once=arguments.jobs)
