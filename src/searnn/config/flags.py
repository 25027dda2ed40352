"""Flags made from the typed configuration: there is no other list of them."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any, get_origin

from pydantic.fields import FieldInfo

from searnn.config import Config, files, from_flags, merge, recipes, registry, resolve
from searnn.config.applies import APPLIES
from searnn.config.kinds import listed
from searnn.config.messages import choices, kind_of, parts
from searnn.config.parser import Parser
from searnn.config.registry import flag
from searnn.config.schema import GROUP_OF, GROUPS, MethodGroup

METHOD = "method"  # the group whose settings belong to some algorithms each


def add_settings(parser: Parser, task: str, without: Collection[str] = ()) -> None:
    """Add a flag for every setting but those `without`, in the groups of the configuration, with the task's defaults.

    What algorithms have of their own stands together with what the same algorithms have.
    """
    for group, model in GROUPS.items():
        box = parser.add_argument_group(group, f"{model.__doc__}{overview() if group == METHOD else ''}")
        boxes: dict[tuple[str, ...], Any] = {}
        for name, field in model.model_fields.items():
            if name == "name" or name in without:
                continue
            kinds = [get_origin(inner) or inner for inner, _ in parts(field.annotation)]
            if bool in kinds:
                how: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
            else:
                how = {"metavar": metavar(field), **({"nargs": "+"} if list in kinds else {})}
            place = box
            if group == METHOD and (takers := tuple(registry.takers("algorithm", name))):
                place = boxes.setdefault(takers, None) or parser.add_argument_group(f"{group} of {listed(takers)}")
                boxes[takers] = place
            place.add_argument(flag(name), dest=name, default=None, **how)
    parser.renew = partial(tell_defaults, parser, task)
    parser.renew(argparse.Namespace())


def tell_defaults(parser: Parser, task: str, arguments: argparse.Namespace) -> None:
    """Let the help say what each setting is, with its default beside the `arguments` that apply."""
    path: Path | None = getattr(arguments, "config", None)
    chosen = merge(files.read(path) if path else Config(), from_flags({**given(arguments), "name": task}))
    base = resolve(chosen, complete=False, optional=GROUP_OF).flat()
    for action in parser._actions:
        if (group := GROUP_OF.get(action.dest)) is not None:
            field = GROUPS[group].model_fields[action.dest]
            action.help = line(action.dest, field, base, chosen.method.algorithm)


def overview() -> str:
    """Which settings each algorithm takes, a line for each."""
    shown = [name for name in GROUP_OF if name not in ("name", "algorithm")]
    lines = []
    for algorithm in registry.AXES["algorithm"]:
        taken = [flag(name) for name in shown if registry.takes("algorithm", algorithm, name)]
        lines.append(f"  {algorithm:<20}{' '.join(taken)}")
    return "\n\n" + "\n".join(lines)


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings given as flags, as text or lists of text, so that they go through the same checks as a file."""
    found = {name: getattr(arguments, name, None) for name in GROUP_OF}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in found.items()}


def line(name: str, field: FieldInfo, base: dict[str, Any], algorithm: str | None = None) -> str:
    """What stands in the help: what it is, the choices and the default; nothing where the task has no such setting.

    Where an `algorithm` was chosen that takes the setting, the default is its own.
    """
    if not all(rule.holds(base) for rule in APPLIES.get(name, ()) if rule.of_task):
        return argparse.SUPPRESS
    words = choices(field) if name != "algorithm" else []  # the overview has them
    told = field.description or ""
    if not all(word in told for word in words):
        told += f": {listed(words)}"
    default = _default(name, base, algorithm)
    return (told if default is None else f"{told} [{default}]").replace("%", "%%")


def _default(name: str, base: dict[str, Any], algorithm: str | None) -> str | None:
    """The default in words; where some algorithms have another than the first, and none was chosen, that of each."""
    takers = registry.takers("algorithm", name)
    if name not in MethodGroup.model_fields or name == "algorithm" or algorithm in takers:
        return _shown(base[name] if base[name] is not None else recipes.default(name, base))
    found: dict[str | None, list[str]] = {}
    for taker in takers:
        found.setdefault(_shown(recipes.default(name, {**base, "algorithm": taker})), []).append(taker)
    first, *others = found or [None]
    return "; ".join([first, *(f"{', '.join(found[value])} {value}" for value in others)]) if first else None


def _shown(value: Any) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def metavar(field: FieldInfo) -> str:
    """A letter or a word for a setting's value."""
    for inner, marks in parts(field.annotation):
        if kind := next(filter(None, map(kind_of, marks)), None):
            return kind.metavar
        if inner in (int, float):
            return "N" if inner is int else "X"
    return "NAME"
