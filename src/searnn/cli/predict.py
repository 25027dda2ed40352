"""`searnn predict RUN`: read inputs, print what the model makes of them, in their order."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from searnn.cli.parsers import (
    add_command,
    add_device,
    add_length_penalty,
    add_mbr,
    add_run,
    add_trust,
    length_penalty,
)  # fmt: skip
from searnn.config.parser import count
from searnn.interfaces import ReadsLines
from searnn.runs import arriving
from searnn.runs.run import Outputs, Run, opened
from searnn.tasks.common.text import TextTask
from searnn.types import SearnnError

NAMED = 20  # units that were never seen


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = (
        "print the outputs of the best model of a run, or of an ensemble of several, a line for each line of the input"
    )
    notes = (
        "Lines are answered as they come, also from a pipe that stays open; where many come at once, they are decoded "
        "together. With --n-best every input has N lines, each with the input's number and a tab before it; --scores "
        "adds a tab and the tokens' mean log-probability."
    )
    parser = add_command(commands, "predict", run, text, notes)
    add_run(parser, several=True)
    parser.add_argument(
        "--input", metavar="FILE", type=Path, help="lines of text; ocr: an .npz or .png of letters [stdin]"
    )
    parser.add_argument("--beam", metavar="N", type=count, help="beam width; 1 is greedy [1, or that of --n-best]")
    add_length_penalty(parser)
    add_mbr(parser)
    parser.add_argument("--n-best", metavar="N", type=count, help="print the N best outputs of each input")
    parser.add_argument("--scores", action="store_true", help="print the score of each output")
    parser.add_argument("--skip-bad-lines", action="store_true", help="print an empty line for a bad one")
    add_device(parser)
    add_trust(parser)


def run(arguments: argparse.Namespace) -> int:
    """Decode the inputs in their order."""
    beam = arguments.beam or arguments.n_best or 1
    if arguments.n_best is not None and arguments.n_best > beam:
        raise SearnnError(f"--n-best is {arguments.n_best}, but a beam of {beam} finds no more: raise --beam")
    if arguments.mbr is not None and (beam > 1 or arguments.n_best or arguments.scores):
        raise SearnnError("--mbr chooses one output without a score: leave out --beam, --n-best and --scores")
    penalty = length_penalty(arguments, beam)
    loaded = opened(arguments.run, "best", arguments.device, arguments.trust_code, [])
    if isinstance(loaded.task, ReadsLines):
        windows = arriving.lines(reading(loaded.task), arguments.input, arguments.skip_bad_lines)
    elif arguments.skip_bad_lines:
        raise SearnnError(f"--skip-bad-lines does not apply here: {loaded.task.name} reads no lines")
    else:
        windows = arriving.letters(arguments.input)
    for window in windows:
        for line in _answers(loaded, window, arguments, beam, penalty):
            print(line)
        sys.stdout.flush()
    return 0


def reading(task: Any) -> arriving.Read:
    """How the task reads a line; each unit that it has never seen is told once, on the error output."""
    told: set[str] = set()

    def read(line: str) -> Any:
        tokens = task.read(line)
        unseen = [unit for unit in dict.fromkeys(task.unknown_units(line)) if unit not in told]
        if named := unseen[: NAMED - len(told)]:
            which = ", ".join(f"{unit!r} ({' '.join(f'U+{ord(char):04X}' for char in unit)})" for unit in named)
            others = " (others are not named)" if len(told) + len(unseen) > NAMED else ""
            print(f"searnn: in no training source, and read as unknown: {which}{others}", file=sys.stderr)
        told.update(unseen)
        return tokens

    return read if isinstance(task, TextTask) else task.read


def _answers(
    run: Run, window: list[arriving.Numbered], arguments: argparse.Namespace, beam: int, penalty: float
) -> Iterator[str]:
    """The lines for a window of inputs."""
    n_best, scores = arguments.n_best, arguments.scores
    good = [source for _, source in window if source is not None]
    asked: dict[str, Any] = {"beam": beam, "length_penalty": penalty, "scored": scores, "best": n_best or 1}
    asked |= {"mbr": arguments.mbr} if arguments.mbr is not None else {}
    found = run.decode(good, **asked) if good else []
    outputs = iter(found)
    nothing: Outputs = [([], float("-inf"))] * (n_best or 1)
    for number, source in window:
        for tokens, score in next(outputs) if source is not None else nothing:
            fields = [str(number)] * (n_best is not None) + [run.show(tokens, score)] + [f"{score:.4f}"] * scores
            yield "\t".join(fields)
