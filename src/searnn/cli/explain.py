"""`searnn explain RUN`: what every token costs at every cell of one example, as a page or a picture."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from searnn.cli.parsers import add_command, add_device, add_run, add_trust, check_place, named
from searnn.config.building import knowledge
from searnn.config.parser import whole
from searnn.files import write
from searnn.interfaces import ReadsLines
from searnn.reports.explain import LOSSES, describe, draw, make_page
from searnn.reports.explain.opening import moments_of, of_data, of_input, with_target
from searnn.reports.explain.searching import Moment
from searnn.runs import Run, load
from searnn.runs.explaining import choices_of
from searnn.runs.run import SPLITS
from searnn.types import Batch, SearnnError

NOTES = (
    "The page opens without a network; it has the roll-ins, roll-outs and losses to switch between and every "
    "checkpoint that the run kept (searnn train --keep-every N keeps more). Without --target the model's own "
    "output stands in for the truth. --example takes the numbers that the page of searnn report shows: the line of "
    "the file where the data are lines, else they count from 0. Pictures show the view that the page opens with."
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "show what every token costs at every cell of one example, as a page to play with"
    parser = add_command(commands, "explain", run, text, NOTES)
    add_run(parser, several=True)
    parser.add_argument("--input", metavar="TEXT", help="the input; ocr: an .npz or .png of letters")
    parser.add_argument("--target", metavar="TEXT", help="the true output [the model's own]")
    told = "example N of the data, as the report numbers them, or of the letters in --input"
    parser.add_argument("--example", metavar="N", type=whole, help=told)
    told = "where --example is: valid or test [test, where there is any]"
    parser.add_argument("--split", choices=SPLITS, metavar="NAME", help=told)
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the page here")
    parser.add_argument("--png", metavar="FILE", type=Path, help="write a picture here")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="write a picture here")
    parser.add_argument("--roll-in", metavar="NAME", help="the roll-in shown first [as trained]")
    parser.add_argument("--roll-out", metavar="NAME", help="the roll-out shown first [as trained]")
    losses = list(LOSSES)
    parser.add_argument("--loss", choices=losses, metavar="NAME", help="the loss shown first: kl or ll [as trained]")
    parser.add_argument("--alpha", metavar="X", type=float, help="its weight of the costs [as trained]")
    add_device(parser)
    add_trust(parser)


def run(arguments: argparse.Namespace) -> int:
    """Search from the one example under every choice, and write what was found."""
    places = {flag: path for flag in ("out", "png", "svg") if (path := vars(arguments)[flag]) is not None}
    if not places:
        raise SearnnError("nothing would be written: give --out FILE for a page, --png FILE or --svg FILE")
    for flag, path in places.items():
        check_place(flag, path)
    if arguments.alpha is not None and not 0 <= arguments.alpha < float("inf"):
        raise SearnnError(f"--alpha is {arguments.alpha}, it must be a finite number of at least 0")
    loaded = load(arguments.run, device=arguments.device, trust_code=arguments.trust_code)
    batch = _example(loaded, arguments)
    choices, start, notes = choices_of(loaded)
    view = {name: vars(arguments)[name] for name in ("roll_in", "roll_out", "loss", "alpha")}
    start = replace(start, **{name: value for name, value in view.items() if value is not None})
    if loaded.members:
        moments, best, left_out = [Moment(f"ensemble of {len(loaded.members)}", 0, loaded.model)], 0, 0
    else:
        moments, best, left_out = moments_of(loaded.model, loaded.folder)
    unknown = knowledge(loaded.task).get("unknown")
    if arguments.target is not None and unknown is not None and unknown in batch.targets[0].tolist():
        told = "the cost takes <unk> for the same, the metric counts no output as right there"
        notes.append(f"The target has what is not in the vocabulary: {told}.")
    if left_out:
        notes.append(f"Of {len(moments) + left_out} checkpoints {len(moments)} are shown.")
    explanation = describe(
        loaded.task, moments, batch, choices, start,
        title=named(arguments.run), stands_in=arguments.input is not None and arguments.target is None, notes=notes,
        at=best, seed=loaded.config.run.seed or 0,
    )  # fmt: skip
    made = [make_page(explanation).encode() if flag == "out" else draw(explanation, flag) for flag in places]
    for path, content in zip(places.values(), made, strict=True):  # nothing is written before all is there
        write(path, content)
        print(path)
    return 0


def _example(loaded: Run, arguments: argparse.Namespace) -> Batch:
    """The example that was asked for; the model's own output stands in for a truth that nobody knows."""
    model, task, text, number = loaded.model, loaded.task, arguments.input, arguments.example
    reads_lines = isinstance(task, ReadsLines)
    if text is None and number is None:
        what = "an input with --input TEXT" if reads_lines else "letters with --input FILE"
        raise SearnnError(f"there is nothing to explain: give {what}, or an example of the data with --example N")
    if text is not None and arguments.split is not None:
        raise SearnnError("--split says where --example is: leave it out with --input")
    if text is not None and reads_lines and number is not None:
        raise SearnnError("--input and --example are two inputs: leave one of them out")
    if text is not None:
        return with_target(model, task, of_input(model, task, text, number or 0), arguments.target)
    batch = of_data(model, task, number, arguments.split)
    return batch if arguments.target is None else with_target(model, task, batch, arguments.target)
