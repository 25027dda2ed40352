"""`searnn report RUN...`: a page about one run or several, what is off in them, and a page that follows them live."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn.cli.parsers import add_command, add_device, add_trust, check_place
from searnn.config import trust
from searnn.config.parser import count
from searnn.reports.html import write_page
from searnn.reports.outputs import Outputs, collect
from searnn.reports.page import describe, page, read_run
from searnn.reports.page.following import EVERY, NAME, data_of, serve, told, watch
from searnn.runs.folders import runs_in
from searnn.runs.run import SPLITS, opened
from searnn.types import SearnnError

PORT = 8765
NOTES = (
    "A folder of runs stands for all runs in it. With one run the page shows its curves, its best and worst outputs "
    "and what is off; with several, what the settings that differ come to. --serve and --watch follow runs that train."
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "make a page about one run or several, and say what is off in them"
    parser = add_command(commands, "report", run, text, NOTES)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="folder of a run, or a folder of runs")
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"the page [RUN/{NAME}; {NAME} of several]")
    parser.add_argument("--split", choices=SPLITS, metavar="NAME", help="examples from valid or test [test]")
    parser.add_argument("--most", metavar="N", type=count, help="decode no more than about N examples [all]")
    parser.add_argument("--no-examples", action="store_true", help="decode nothing: only what was recorded")
    add_device(parser)
    add_trust(parser)
    parser.add_argument("--watch", action="store_true", help=f"write the page anew every {EVERY:g} s; Ctrl-C ends it")
    parser.add_argument("--serve", action="store_true", help="a page on this machine that follows the runs live")
    parser.add_argument("--port", metavar="N", type=_port, help=f"its port; 0 is any that is free [{PORT}]")


def run(arguments: argparse.Namespace) -> int:
    """Write the page, once or again and again, or serve it."""
    _check(arguments)
    folders = runs_in(arguments.runs)
    if arguments.serve:
        serve(folders, PORT if arguments.port is None else arguments.port)
        return 0
    out = arguments.out or (folders[0] / NAME if len(folders) == 1 else Path(NAME))
    for folder in folders:
        read_run(folder)  # what is no run at all is refused before anything is decoded or written
    check_place("out", out)
    if arguments.watch:
        watch(folders, out)
        return 0
    data = data_of(folders) if arguments.no_examples else _with_examples(folders, arguments)
    write_page(out, page(data))
    print(*told(data), f"report: {out}", sep="\n")
    return 0


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together."""
    follows = "--serve" if arguments.serve else "--watch" if arguments.watch else None
    if arguments.serve and arguments.watch:
        raise SearnnError("--watch does not apply here: --serve follows the runs already")
    if arguments.serve and arguments.out is not None:
        raise SearnnError("--out does not apply here: --serve writes no file")
    if arguments.port is not None and not arguments.serve:
        raise SearnnError("--port does not apply here: it belongs to --serve")
    of_examples = {"split": arguments.split, "most": arguments.most, "trust-code": arguments.trust_code or None}
    for name, value in of_examples.items():
        if value is not None and (follows or arguments.no_examples):
            why = f"{follows} shows no examples" if follows else "it belongs to the examples, which --no-examples omits"
            raise SearnnError(f"--{name} does not apply here: {why}")


def _with_examples(folders: Sequence[Path], arguments: argparse.Namespace) -> Any:
    """The data of the page, with what the best models write, or why there is nothing."""
    console = Console(stderr=True)
    found: list[Outputs | None] = []
    described = missing = None
    for folder in folders:
        try:
            with console.status(f"decoding {folder.name}"):
                loaded = opened(folder, "best", arguments.device, arguments.trust_code, [trust.METRIC])
                outputs = collect(loaded.model, loaded.task, arguments.split, most=arguments.most)
                described = describe(outputs, loaded.task) if len(folders) == 1 else None
            found.append(outputs)
        except SearnnError as error:
            if arguments.split is not None or isinstance(error, trust.UntrustedError):
                raise
            missing = str(error)
            console.print(f"no examples of {folder}: {missing}", highlight=False, markup=False, soft_wrap=True)
            found.append(None)
    return data_of(folders, found, described, missing=missing)


def _port(text: str) -> int:
    """A port's number."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, got {text!r}")
    return int(text)
