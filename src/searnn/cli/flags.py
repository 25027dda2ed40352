"""Flags made from the typed configuration: there is no other list of them."""

from __future__ import annotations

import argparse
from typing import Any, get_origin

from pydantic.fields import FieldInfo

from searnn.config import recipes
from searnn.config.applies import APPLIES
from searnn.config.kinds import listed
from searnn.config.messages import choices, kind_of, parts
from searnn.config.registry import flag
from searnn.config.resolving import resolve
from searnn.config.schema import GROUP_OF, GROUPS, Config, TaskGroup


def add_settings(parser: argparse.ArgumentParser, task: str) -> None:
    """Add a flag for every setting, in the groups of the configuration, with the task's defaults."""
    base = resolve(Config(task=TaskGroup(name=task)), complete=False).flat()
    for group, model in GROUPS.items():
        box = parser.add_argument_group(group, model.__doc__)
        for name, field in model.model_fields.items():
            if name == "name":
                continue
            kinds = [get_origin(inner) or inner for inner, _ in parts(field.annotation)]
            if bool in kinds:
                how: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
            else:
                how = {"metavar": metavar(field), **({"nargs": "+"} if list in kinds else {})}
            box.add_argument(flag(name), dest=name, default=None, help=line(name, field, base), **how)


def given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings given as flags, as text or lists of text, so that they go through the same checks as a file."""
    found = {name: getattr(arguments, name, None) for name in GROUP_OF}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in found.items()}


def line(name: str, field: FieldInfo, base: dict[str, Any]) -> str:
    """What stands in the help: what it is, the choices and the default; nothing where the task has no such setting."""
    if not all(rule.holds(base) for rule in APPLIES.get(name, ()) if rule.of_task):
        return argparse.SUPPRESS
    words = choices(field)
    told = field.description or ""
    if not all(word in told for word in words):
        told += f": {listed(words)}"
    default = base[name] if base[name] is not None else recipes.default(name, base)
    if default is None:
        return told.replace("%", "%%")
    shown = {True: "yes", False: "no"}.get(default, default) if isinstance(default, bool) else default
    return f"{told} [{shown:g}]" if isinstance(shown, float) else f"{told} [{shown}]"


def metavar(field: FieldInfo) -> str:
    """A letter or a word for a setting's value."""
    for inner, marks in parts(field.annotation):
        if kind := next(filter(None, map(kind_of, marks)), None):
            return kind.metavar
        if inner in (int, float):
            return "N" if inner is int else "X"
    return "NAME"
