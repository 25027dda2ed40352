"""Flags made from the typed configuration: there is no other list of them."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from searnn.config import Config, files, from_flags, merge, recipes, registry, resolve, trust
from searnn.config.applies import APPLIES
from searnn.config.parser import Parser
from searnn.config.registry import flag
from searnn.config.schema import DECLARED, SECTIONS, Declared, Own, chooses, extended, own_parts
from searnn.settings import listed
from searnn.types import SearnnError

METHOD = "method"  # the group whose settings belong to some algorithms each


def add_settings(parser: Parser, task: str, without: Collection[str] = ()) -> None:
    """Add a flag for every setting but those `without`, in the groups of the configuration, with the task's defaults.

    What algorithms have of their own stands together with what the same algorithms have. Parts of the user's own that
    are named among the arguments add theirs.
    """
    boxes: dict[Any, Any] = {}
    for group, about in SECTIONS.items():
        boxes[group] = parser.add_argument_group(group, f"{about}{overview() if group == METHOD else ''}")
        for name, item in DECLARED.items():
            if item.section != group or name == "name" or name in without:
                continue
            place = group
            if group == METHOD and (takers := registry.takers("algorithm", name)):
                place = f"{group} of {listed(takers)}"
                boxes[place] = boxes.get(place) or parser.add_argument_group(place)
            _add(boxes[place], item)
    parser.extend = partial(_add_own, parser, boxes)
    parser.renew = partial(tell_defaults, parser, task)
    parser.renew(argparse.Namespace())


def _add(box: Any, item: Declared) -> None:
    """A setting's flag."""
    how: dict[str, Any] = {"metavar": item.metavar, **({"nargs": "+"} if item.setting.kind == "files" else {})}
    if item.type is bool:
        how = {"action": argparse.BooleanOptionalAction}
    box.add_argument(flag(item.name), dest=item.name, default=None, help=item.help, **how)


def _add_own(parser: Parser, boxes: Mapping[Any, Any], words: Sequence[str]) -> None:
    """Add the flags of the user's own parts that are named among the words."""
    try:
        known = extended(_named(parser, words)).declared
    except SearnnError as error:  # said where the part is made, or where a flag is not known without it
        parser.missed = error
        return
    there = {action.dest for action in parser._actions}
    for item in (known[name] for name in known if name not in DECLARED and name not in parser.own):
        if item.name in there:
            axis, name = item.own[0]
            raise SearnnError(f"{flag(axis)} {name} takes {item.name!r}, a flag of this command: rename the argument")
        _add(boxes[item.section], item)
        parser.own[item.name] = item
    parser.set_defaults(own=tuple(parser.own))


def _named(parser: Parser, words: Sequence[str]) -> Own:
    """The parts whose flags there are: the user's own, and those of a run where they are trusted."""
    found = dict(_with_files(words))
    given = {name for (_, name), path in found.items() if path is None or not trust.is_of_run(path)}
    for (axis, name), path in found.items():
        if path is not None and name not in given and "--trust-code" not in words:
            parser.missed = trust.refusal(path, axis, name)  # said where a flag is not known without it
    return tuple(part for part in found if part[1] in given or "--trust-code" in words)


def _with_files(words: Sequence[str]) -> Iterator[tuple[tuple[str, str], Path | None]]:
    """Parts that are named by flags, in `--algorithms`, or in the files of `--config` and `--run`, with that file."""
    flags = {flag(chooses(axis)): chooses(axis) for axis in registry.AXES}
    of = ""
    for word in words:
        if word.startswith("--"):
            of, equals, value = word.partition("=")
            word = value if equals else ""
        for part in word.split(",") if of == "--algorithms" else [word]:
            first = part.split()[0] if of == "--algorithms" and part.split() else part
            axis = "algorithm" if of == "--algorithms" else flags.get(of, "")
            yield from ((part, None) for part in own_parts({axis: first}))
        if word and of in ("--config", "--run"):  # a run goes on with the parts that it has
            with suppress(SearnnError):  # said where it is read
                path = Path(word, files.SETTINGS) if of == "--run" else Path(word)
                yield from ((part, path) for part in own_parts(files.read(path, may=files.no_part).flat()))


def tell_defaults(parser: Parser, task: str, arguments: argparse.Namespace) -> None:
    """Let the help say what each setting is, with its default beside the `arguments` that apply."""
    flagged = {**given(arguments), "name": task}
    path: Path | None = vars(arguments).get("config")
    trusted = vars(arguments).get("trust_code", False) or trust.names(flagged)
    in_file = trust.given_file(path, trusted, flagged) if path else Config()
    chosen = merge(in_file, from_flags(flagged, beside=in_file.flat()))
    found = resolve(chosen, complete=False, optional=chosen.declared)
    for action in parser._actions:
        if (item := DECLARED.get(action.dest) or parser.own.get(action.dest)) is not None:
            action.help = line(item, {**dict.fromkeys(parser.own), **found.flat()}, chosen.method.algorithm)


def overview() -> str:
    """Which settings each algorithm takes, a line for each."""
    lines = []
    for algorithm in registry.AXES["algorithm"]:
        taken = [flag(name) for name in DECLARED if registry.takes("algorithm", algorithm, name)]
        lines.append(f"  {algorithm:<20}{' '.join(taken)}")
    return "\n\n" + "\n".join(lines)


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings given as flags, as text or lists of text, so that they go through the same checks as a file."""
    known = vars(arguments)
    found = {name: known.get(name) for name in (*DECLARED, *known.get("own", ()))}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in found.items()}


def line(item: Declared, base: Mapping[str, Any], algorithm: str | None = None) -> str:
    """What stands in the help: what it is, the choices and the default; nothing where the task has no such setting.

    Where an `algorithm` was chosen that takes the setting, the default is its own.
    """
    if not all(rule.holds(base) for rule in APPLIES.get(item.name, ()) if rule.of_task):
        return argparse.SUPPRESS
    told, words = item.help, item.choices if item.name != "algorithm" else ()  # the overview has them
    if not all(word in told for word in words):
        told += f": {listed(words)}"
    default = _default(item, base, algorithm)
    return (told if default is None else f"{told} [{default}]").replace("%", "%%")


def _default(item: Declared, base: Mapping[str, Any], algorithm: str | None) -> str | None:
    """The default in words; where some algorithms have another than the first, and none was chosen, that of each."""
    name, takers = item.name, registry.takers("algorithm", item.name)
    if item.own or item.section != METHOD or name == "algorithm" or algorithm in takers:
        found = base[name] is None and not item.own
        return _shown(recipes.default(name, base) if found else base[name])
    found_for: dict[str | None, list[str]] = {}
    for taker in takers:
        found_for.setdefault(_shown(recipes.default(name, {**base, "algorithm": taker})), []).append(taker)
    first, *others = found_for or [None]
    return "; ".join([first, *(f"{', '.join(found_for[value])} {value}" for value in others)]) if first else None


def _shown(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)
