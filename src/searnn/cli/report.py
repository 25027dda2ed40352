"""`searnn report RUN...`: a page about one run or several, what is off in them, and a page that follows them live."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from searnn.cli.places import check_place
from searnn.config.parser import count
from searnn.reports.outputs import collect
from searnn.reports.page import Finding, Outputs, describe, page, read_run, report, write_page
from searnn.reports.page.ending import NAME
from searnn.reports.page.serving import Follower
from searnn.runs.opening import load
from searnn.types import SearnnError

PORT = 8765
EVERY = 5.0  # seconds between looks at a run that is watched
NOTES = (
    "A folder of runs stands for all runs in it. With one run the page shows its curves, its best and worst outputs "
    "and what is off; with several, what the settings that differ come to. --serve and --watch follow runs that train."
)


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "make a page about one run or several, and say what is off in them"
    parser = commands.add_parser("report", help=text, description=text.capitalize() + ".", epilog=NOTES)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path, help="folder of a run, or a folder of runs")
    parser.add_argument("--out", metavar="FILE", type=Path, help=f"the page [RUN/{NAME}; {NAME} of several]")
    splits = ["valid", "test"]
    parser.add_argument("--split", choices=splits, metavar="NAME", help="examples from valid or test [test]")
    parser.add_argument("--most", metavar="N", type=count, help="decode no more than about N examples [all]")
    parser.add_argument("--no-examples", action="store_true", help="decode nothing: only what was recorded")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    parser.add_argument("--watch", action="store_true", help=f"write the page anew every {EVERY:g} s; Ctrl-C ends it")
    parser.add_argument("--serve", action="store_true", help="a page on this machine that follows the runs live")
    parser.add_argument("--port", metavar="N", type=_port, help=f"its port; 0 is any that is free [{PORT}]")
    parser.set_defaults(command=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the page, once or again and again, or serve it."""
    _check(arguments)
    folders = _folders(arguments.runs)
    if arguments.serve:
        return _serve(folders, PORT if arguments.port is None else arguments.port)
    out = arguments.out or (folders[0] / NAME if len(folders) == 1 else Path(NAME))
    for folder in folders:
        read_run(folder)  # what is no run at all is refused before anything is decoded or written
    check_place("out", out)
    if arguments.watch:
        return _watch(folders, out)
    found, described, missing = _examples(folders, arguments)
    data = _data(folders, found, described, missing)
    write_page(out, page(data))
    for line in told(data):
        print(line)
    print(f"report: {out}")
    return 0


def told(data: Mapping[str, Any]) -> list[str]:
    """The doctor's words for the terminal."""
    lines = []
    for each in data["runs"]:
        best = each["best"]
        value = "nothing recorded yet" if best is None else f"best {each['metric']} {best['value']:.4g}"
        lines.append(f"{each['name']}: {value}" + (f" at step {best['step']}" if best else ""))
        lines += [f"  {line}" for line in _words(Finding(**found) for found in each["findings"])]
    return lines + _words(Finding(**found) for found in data.get("findings", ()))


def _words(findings: Any) -> list[str]:
    return [f"{each.level}: {each.title}. {each.reason} {each.remedy}" for each in findings]


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together."""
    follows = "--serve" if arguments.serve else "--watch" if arguments.watch else None
    if arguments.serve and arguments.watch:
        raise SearnnError("--watch does not apply here: --serve follows the runs already")
    if arguments.serve and arguments.out is not None:
        raise SearnnError("--out does not apply here: --serve writes no file")
    if arguments.port is not None and not arguments.serve:
        raise SearnnError("--port does not apply here: it belongs to --serve")
    for name in ("split", "most"):
        if getattr(arguments, name) is not None and (follows or arguments.no_examples):
            why = f"{follows} shows no examples" if follows else "it belongs to the examples, which --no-examples omits"
            raise SearnnError(f"--{name} does not apply here: {why}")


def _folders(given: Sequence[Path]) -> list[Path]:
    """The runs: those that are named, and those in folders that are no runs themselves."""
    found: dict[Path, Path] = {}
    for folder in given:
        inside = []
        if folder.is_dir() and not any((folder / name).is_file() for name in ("config.toml", "metrics.jsonl")):
            inside = [path.parent for path in sorted(folder.glob("*/config.toml"))]
        for path in inside or [folder]:
            if path.resolve() in found:
                raise SearnnError(f"the run {path} was given twice")
            found[path.resolve()] = path
    return list(found.values())


def _data(
    folders: Sequence[Path],
    outputs: Sequence[Outputs | None] | None = None,
    described: Mapping[str, Any] | None = None,
    missing: str | None = None,
    follow: str | None = None,
) -> dict[str, Any]:
    names = [folder.resolve().name for folder in folders]
    unique = [name if names.count(name) == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]
    runs = [read_run(folder, name) for folder, name in zip(folders, unique, strict=True)]
    return report(runs, outputs, described, missing=missing, follow=follow)


def _examples(
    folders: Sequence[Path], arguments: argparse.Namespace
) -> tuple[list[Outputs | None], dict[str, Any] | None, str | None]:
    """What the best models write, what a page shows of it, and why there is nothing where that was not asked for."""
    if arguments.no_examples:
        return [None] * len(folders), None, None
    console = Console(stderr=True)
    found: list[Outputs | None] = []
    described = missing = None
    for folder in folders:
        try:
            with console.status(f"decoding {folder.name}"):
                loaded = load(folder, device=arguments.device)
                outputs = collect(loaded.model, loaded.task, arguments.split, most=arguments.most)
                described = describe(outputs, loaded.task) if len(folders) == 1 else None
            found.append(outputs)
        except SearnnError as error:
            if arguments.split is not None:
                raise
            missing = str(error)
            console.print(f"no examples of {folder}: {missing}", highlight=False, markup=False, soft_wrap=True)
            found.append(None)
    return found, described, missing


def _watch(folders: Sequence[Path], out: Path) -> int:
    """Write the page whenever something was recorded."""
    before = None
    try:
        while True:
            data = _data(folders, follow="watch")
            if data != before:
                write_page(out, page(data))
                if before is None:
                    print(f"report: {out}, written anew as the run goes on; Ctrl-C ends this", flush=True)
                before = data
            time.sleep(EVERY)
    except KeyboardInterrupt:
        write_page(out, page(_data(folders)))  # one that no longer reads itself again
        return 0


def _serve(folders: Sequence[Path], port: int) -> int:
    """Serve until Ctrl-C."""
    _data(folders)  # what is wrong with the runs is said now
    with Follower(lambda: _data(folders, follow="serve"), port) as server:
        print(f"report: {server.address} (on this machine only; Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def _port(text: str) -> int:
    """A port's number."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"must be a port from 0 to 65535, got {text!r}")
    return int(text)
