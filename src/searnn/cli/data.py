"""`searnn data`: list, get and check the data sets."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from searnn.tasks import store


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "list, get or check the data sets"
    parser = commands.add_parser("data", help=text, description=text.capitalize() + ".")
    parser.add_argument("action", metavar="ACTION", choices=["list", "get", "check"], help="list, get or check")
    names = sorted(store.SOURCES)
    parser.add_argument("name", metavar="NAME", nargs="?", choices=names, help="a data set; all without it")
    parser.set_defaults(command=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Do it, for one data set or all of them."""
    rows = [row for row in store.listing() if arguments.name in (None, row.name)]
    for row in rows:
        if arguments.action == "list":
            print(f"{row.name}: {row.what}")
            print(f"  from   {row.source}")
            print(f"  terms  {row.terms}")
            print(f"  here   {row.where or f'no: get it with searnn data get {row.name}'}")
        elif arguments.action == "get":
            print(store.get(row.name, progress=lambda line: print(line, file=sys.stderr)))
        else:
            print(f"{store.check(row.name)}: sound")
    return 0
