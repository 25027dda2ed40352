"""`searnn data`: list, get and check the data sets."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from searnn.data import store
from searnn.data.sources import SOURCES, Source
from searnn.types import SearnnError

EVERY = 5.0  # seconds between lines on a download where there is no terminal
LIST_WIDTH = 110


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "list, get or check the data sets"
    parser = commands.add_parser("data", help=text, description=text.capitalize() + ".")
    parser.add_argument("action", metavar="ACTION", choices=["list", "get", "check"], help="list, get or check")
    names = sorted(SOURCES)
    parser.add_argument("name", metavar="NAME", nargs="?", choices=names, help="a data set; all without it")
    parser.add_argument("--sha256", metavar="HASH", help="get: take this version of a set whose source changes")
    parser.set_defaults(command=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Do it, for one data set or all of them."""
    named = arguments.name is not None
    if arguments.sha256 is not None:
        if arguments.action != "get" or not named:
            raise SearnnError("--sha256 does not apply here: it belongs to `searnn data get NAME`")
        return get([SOURCES[arguments.name]], named, arguments.sha256)
    action = {"list": show, "get": get, "check": check}[arguments.action]
    return action([SOURCES[arguments.name]] if named else list(SOURCES.values()), named)


def show(sources: list[Source], named: bool) -> int:
    """A block for each data set."""
    del named
    places = [store.find(source.name) for source in sources]
    for source, place in zip(sources, places, strict=True):
        print(f"{source.name}: {source.what}")
        names = [file.name for file in source.files]
        facts = {
            "here": place or f"no: {store.how(source)}",
            "size": f"about {decimal(sum(file.size for file in source.files))}",
            "files": f"{len(names)} file{'s' * (len(names) > 1)}: {', '.join(names)}",
            "licence": source.terms,
            "origin": source.origin,
        }
        for name, fact in facts.items():
            width = LIST_WIDTH if isinstance(fact, str) else sys.maxsize  # a path stays whole
            lines = textwrap.wrap(str(fact), width, break_long_words=False, break_on_hyphens=False)
            print(f"  {name:<8} " + f"\n{'':11}".join(lines))
    return 0


def get(sources: list[Source], named: bool, sha256: str | None = None) -> int:
    """Find or fetch; without a name all that can be fetched, and one that fails does not keep the others away."""
    status = 0
    for source in sources:
        if not named and not source.fetchable and store.find(source.name) is None:
            print(f"{source.name}: only by hand: {store.how(source)}", file=sys.stderr)
            continue
        try:
            with Reporter() as reporter:
                place = store.get(source.name, reporter.line, reporter.watch, sha256=sha256)
            print(place)
        except SearnnError as error:
            if named:
                raise
            print(f"searnn: error: {error}", file=sys.stderr)
            status = 2
    return status


def check(sources: list[Source], named: bool) -> int:
    """Say of each whether it is sound; one that is asked for must be here."""
    status = 0
    for source in sources:
        if not named and store.find(source.name) is None:
            print(f"{source.name}: not here")
            continue
        try:
            print(f"{source.name}: sound: {store.check(source.name)}")
            for file, sha256 in store.versions(source.name).items():
                print(f"  {file} may differ between sources; this one has the SHA-256 {sha256}")
        except SearnnError as error:
            if named:
                raise
            print(f"{source.name}: damaged: {error}")
            status = 2
    return status


class Reporter:
    """Shows on the error output what is fetched: a bar on a terminal, now and then a plain line anywhere else."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        columns = (TextColumn("  "), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=self.console, transient=True)
        self.begun, self.told = 0.0, 0.0

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.console.is_interactive:  # elsewhere it would add an empty line
            self.bar.stop()

    def line(self, text: str) -> None:
        """Something else begins."""
        for task in self.bar.task_ids:
            self.bar.remove_task(task)
        self.begun = 0.0
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def watch(self, done: int, total: int | None) -> None:
        """So many bytes are here."""
        now = time.monotonic()
        if not self.begun:
            self.begun, self.told = now, now
        if self.console.is_interactive:
            self.bar.start()
            if not self.bar.task_ids:
                self.bar.add_task("", total=total, completed=done)
            self.bar.update(self.bar.task_ids[0], completed=done, total=total)
        elif now - self.told >= EVERY:
            self.told = now
            whole = f" of {decimal(total)}" if total else ""
            speed = decimal(int(done / (now - self.begun)))
            self.console.print(f"  {decimal(done)}{whole}, {speed}/s", highlight=False, soft_wrap=True)
