"""What pydantic found, said in one plain line that names the flag or the key of the file."""

from __future__ import annotations

from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, ValidationError
from pydantic.fields import FieldInfo

from searnn.config.kinds import Kind, listed
from searnn.config.registry import suggestion
from searnn.config.schema import GROUP_OF, GROUPS

BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}


def parts(annotation: Any) -> list[tuple[Any, list[Any]]]:
    """The alternatives of an annotation but None, each with its constraints."""
    if get_origin(annotation) in (Union, UnionType):
        return [part for option in get_args(annotation) for part in parts(option)]
    if annotation is type(None):
        return []
    if get_origin(annotation) is Annotated:
        inner, *extra = get_args(annotation)
        marks = [mark for item in extra for mark in (item.metadata if isinstance(item, FieldInfo) else [item])]
        return [(inner, marks)]
    return [(annotation, [])]


def choices(field: FieldInfo) -> list[str]:
    """The words that a setting may be, where it is one of a few."""
    found: list[str] = []
    for inner, marks in parts(field.annotation):
        found += get_args(inner) if get_origin(inner) is Literal else []
        found += [word for mark in marks if (kind := kind_of(mark)) for word in kind.choices]
    return found


def kind_of(mark: Any) -> Kind | None:
    """The special kind of a setting, where a constraint is one."""
    return mark.func if isinstance(mark, AfterValidator) and isinstance(mark.func, Kind) else None


def expected(field: FieldInfo) -> str:
    """What a setting may be, in words."""
    words = []
    for inner, marks in parts(field.annotation):
        kind = next(filter(None, map(kind_of, marks)), None)
        if kind is not None:
            words.append(kind.expected)
        elif get_origin(inner) is Literal:
            words.append(listed([str(choice) for choice in get_args(inner)]))
        elif inner is bool:
            words.append("true or false")
        elif inner is str:
            words.append("a text")
        else:
            noun = "a whole number" if inner is int else "a number"
            bounds = [(text, getattr(mark, name, None)) for mark in marks for name, text in BOUNDS.items()]
            limits = [f"{text} {bound:g}" for text, bound in bounds if bound is not None]
            words.append(" ".join([noun, " and ".join(limits)]).strip())
    return " or ".join(words)


def sentence(error: ValidationError, say: Callable[[str], str]) -> str:
    """The first thing wrong, in one line; `say` turns a setting's name into what the user wrote: a flag or a key."""
    first = error.errors(include_url=False)[0]
    group, *rest = [str(part) for part in first["loc"]]
    if not rest:
        return _misplaced(group)
    name = rest[0]
    if first["type"] == "extra_forbidden":
        return _unknown(group, name)
    if first["type"] == "value_error":
        return f"{say(name)} {first['ctx']['error']}"
    field = GROUPS[group].model_fields[name]
    given = first["input"]
    close = suggestion(given, choices(field)) if isinstance(given, str) else ""
    return f"{say(name)} must be {expected(field)}, got {given!r}{close}"


def _misplaced(name: str) -> str:
    """A key outside of a section, or a section that does not exist."""
    if name in GROUPS:
        return f"[{name}] must be a section with settings"
    if name in GROUP_OF:
        return f"{name!r} belongs in the section [{GROUP_OF[name]}]"
    return f"there is no section [{name}]{suggestion(name, list(GROUPS))}"


def _unknown(group: str, name: str) -> str:
    """A key that its section does not have."""
    if name in GROUP_OF:
        return f"{name!r} belongs in the section [{GROUP_OF[name]}], not in [{group}]"
    return f"[{group}] has no setting {name!r}{suggestion(name, list(GROUP_OF))}"
