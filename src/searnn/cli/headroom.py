"""`searnn headroom RUN`: how much better a run could be by its metric, by what, and what SEARNN would gain."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn.cli.parsers import add_command, add_device, add_run, add_trust, check_place
from searnn.config import trust
from searnn.config.parser import count, whole
from searnn.reports.headroom import NAME, keep, words
from searnn.reports.rendering import for_terminal
from searnn.runs.run import SPLITS, opened

NOTES = (
    f"The result is kept in the run's folder ({NAME}), where searnn report finds it. The forecast is for runs by "
    "maximum likelihood (--algorithm mle); of other runs everything else is told."
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "say how much better a run could be by its metric, by what, and what SEARNN would gain"
    parser = add_command(commands, "headroom", run, text, NOTES)
    add_run(parser)
    parser.add_argument("--split", choices=SPLITS, metavar="NAME", default="valid", help="valid or test [valid]")
    told = "decode about N examples, and as many of training [what takes about a minute]"
    parser.add_argument("--examples", metavar="N", type=count, help=told)
    parser.add_argument("--samples", metavar="N", type=count, default=64, help="outputs drawn for each [64]")
    parser.add_argument("--beam", metavar="N", type=count, default=5, help="beam width [5]")
    parser.add_argument("--seed", metavar="N", type=whole, default=0, help="seed of all randomness [0]")
    add_device(parser)
    add_trust(parser)
    parser.add_argument("--json", metavar="FILE", type=Path, help="also write what was found here")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print and keep."""
    if arguments.json is not None:
        check_place("json", arguments.json)
    loaded = opened(arguments.run, "best", arguments.device, arguments.trust_code, [trust.METRIC])
    asked = {name: vars(arguments)[name] for name in ("examples", "samples", "beam", "seed")}
    with Console(stderr=True).status("measuring") as status:
        found = loaded.headroom(arguments.split, **asked, tell=status.update)
    console = Console()
    console.print(words.title(found), highlight=False, markup=False, soft_wrap=True)
    for rows in (words.ways(found), words.sides(found)):
        console.print(for_terminal(rows))
    for sentence in found.words:
        console.print(sentence, highlight=False, markup=False)
    if arguments.json is not None:
        keep(found, arguments.json)
    return 0
