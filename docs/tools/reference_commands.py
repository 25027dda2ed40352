"""The reference of the command line, read out of its parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import Any

from searnn.cli.program import make_parser
from searnn.cli.train import BRACKETS


def subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, by name, each with its settings, which are else made when it is used."""
    found: dict[str, Any] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found = dict(action.choices)
    for one in found.values():
        if (fill := getattr(one, "fill", None)) is not None:
            fill()
            one.fill = None
    return found


def called(action: argparse.Action) -> str:
    """How an option or an argument is written."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return "--[no-]" + action.option_strings[0].removeprefix("--")
    value = action.metavar or (None if action.nargs == 0 else action.dest.upper())
    many = "..." if action.nargs in ("+", "*") else ""
    return " ".join(filter(None, (action.option_strings[0] if action.option_strings else "", f"{value or ''}{many}")))


def told(action: argparse.Action) -> tuple[str, str]:
    """What an option is, and its default as the help has it."""
    text = (action.help or "").replace("%%", "%")
    match = re.fullmatch(r"(.*?) \[([^\[\]]*)\]", text, re.DOTALL)
    return (match[1], match[2]) if match else (text, "")


def cell(text: str) -> str:
    """Text for a table: what looks like HTML or a new column is taken literally."""
    return text.replace("|", r"\|").replace("<", "&lt;")


def columns(first: str) -> str:
    """The head of a table."""
    return f"| {first} | what | default |\n| --- | --- | --- |\n"


def groups(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, list[argparse.Action]]]:
    """The groups of a parser with their options, those that the help leaves out left out."""
    for group in parser._action_groups:
        shown = [
            a
            for a in group._group_actions
            if a.help != argparse.SUPPRESS and a.dest != "help" and not hasattr(a, "_choices_actions")
        ]
        if shown:
            yield group.title or "", group.description or "", shown


def described(text: str) -> str:
    """A group's description; indented lines in it stay as they are."""
    prose, _, table = text.partition("\n\n  ")
    return f"{prose}\n\n" + (f"```text\n  {table}\n```\n\n" if table else "") if text else ""


def simple(name: str, parser: argparse.ArgumentParser) -> str:
    """A command without sub-commands."""
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    text = f"## `searnn {name}`\n\n{parser.description}\n\n```text\n{usage}\n```\n\n{columns('option')}"
    for _, _, actions in groups(parser):
        for action in actions:
            what, default = told(action)
            text += f"| `{called(action)}` | {cell(what)} | {cell(default)} |\n"
    return text + (f"\n{parser.epilog}\n" if parser.epilog else "")


def by_task(name: str, parser: argparse.ArgumentParser) -> str:
    """A command with a parser for each task: one table for each group, with what differs between the tasks."""
    parsers = subparsers(parser)
    known = {called(a) for one in subparsers(subparsers(make_parser())["train"]).values() for a in one._actions}
    text = f"# `searnn {name}`\n\n{parser.description} The tasks are {', '.join(f'`{task}`' for task in parsers)}.\n\n"
    first = next(iter(parsers.values()))
    notes = (first.epilog or "").removeprefix(f"{BRACKETS} ")  # here they have a column
    text += f"```text\nsearnn {name} TASK [settings]\n```\n\n{notes}\n\n"
    merged: dict[str, tuple[str, dict[str, dict[str, argparse.Action]]]] = {}
    for task, one in parsers.items():
        for title, about, actions in groups(one):
            _, rows = merged.setdefault(title, (about, {}))
            for action in actions:
                if name == "train" or called(action) not in known:
                    rows.setdefault(called(action), {})[task] = action
    if name != "train":
        text += "Beside those below it takes the [settings of `searnn train`](train.md).\n\n"
        merged = {title: group for title, group in merged.items() if group[1]}
    for title, (about, rows) in merged.items():
        text += f"## {title[:1].upper()}{title[1:]}\n\n{described(about)}{columns('setting')}"
        for flag, of_task in rows.items():
            whats = list(dict.fromkeys(told(action)[0] for action in of_task.values()))
            only = "" if len(of_task) == len(parsers) else f" ({', '.join(of_task)})"
            text += f"| `{flag}` | {cell('; '.join(whats))}{only} | {cell(defaults(of_task))} |\n"
        text += "\n"
    return text


def defaults(of_task: dict[str, argparse.Action]) -> str:
    """The default of most tasks, then those of the others."""
    found: dict[str, list[str]] = {}
    for task, action in of_task.items():
        found.setdefault(
            told(action)[1].replace(f"runs/{task}", "runs/TASK").replace(f"compare-{task}", "compare-TASK"), []
        ).append(task)
    (most, _), *others = sorted(found.items(), key=lambda item: -len(item[1]))
    return " · ".join([most, *(f"{', '.join(tasks)}: {value or 'none'}" for value, tasks in others)])


def command_pages() -> dict[str, str]:
    """The pages of the command line: one of all commands, and one for each that has settings."""
    parser = make_parser()
    text = "# The command line\n\n`searnn COMMAND --help` says the same in the terminal. "
    text += "A mistake is one line on the error output, with status 2.\n\n"
    pages = {}
    for name, one in subparsers(parser).items():
        if subparsers(one):
            pages[f"{name}.md"] = by_task(name, one)
            text += f"## `searnn {name}`\n\n{one.description} All settings: [{name}]({name}.md).\n\n"
        else:
            text += simple(name, one) + "\n"
    return {"commands.md": text, **pages}
