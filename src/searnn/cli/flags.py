"""Flags made from the typed configuration: there is no other list of them."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import Any, get_origin

from pydantic.fields import FieldInfo

from searnn.config import recipes, registry
from searnn.config.applies import APPLIES
from searnn.config.kinds import listed
from searnn.config.messages import choices, kind_of, parts
from searnn.config.registry import flag
from searnn.config.resolving import resolve
from searnn.config.schema import GROUP_OF, GROUPS, Config, MethodGroup, TaskGroup

METHOD = "method"  # the group whose settings belong to some algorithms each


def add_settings(parser: argparse.ArgumentParser, task: str, without: Collection[str] = ()) -> None:
    """Add a flag for every setting but those `without`, in the groups of the configuration, with the task's defaults.

    What algorithms have of their own stands together with what the same algorithms have.
    """
    base = resolve(Config(task=TaskGroup(name=task)), complete=False).flat()
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
            place.add_argument(flag(name), dest=name, default=None, help=line(name, field, base), **how)


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


def line(name: str, field: FieldInfo, base: dict[str, Any]) -> str:
    """What stands in the help: what it is, the choices and the default; nothing where the task has no such setting."""
    if not all(rule.holds(base) for rule in APPLIES.get(name, ()) if rule.of_task):
        return argparse.SUPPRESS
    words = choices(field) if name != "algorithm" else []  # the overview has them
    told = field.description or ""
    if not all(word in told for word in words):
        told += f": {listed(words)}"
    default = _default(name, base)
    return told.replace("%", "%%") if default is None else f"{told} [{default}]"


def _default(name: str, base: dict[str, Any]) -> str | None:
    """The default in words; where some algorithms have another than the first, that of each."""
    if name not in MethodGroup.model_fields or name == "algorithm":
        return _shown(base[name] if base[name] is not None else recipes.default(name, base))
    found: dict[str | None, list[str]] = {}
    for algorithm in registry.takers("algorithm", name):
        found.setdefault(_shown(recipes.default(name, {**base, "algorithm": algorithm})), []).append(algorithm)
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
