"""What a setting is: its type, its range, its default and one line of help stand where the argument is that takes it.

`Annotated[float, Setting("weight of the costs", ge=0)] = 1.0` in a constructor or a dataclass is all that is needed:
the flags, the sections of a file, their checks and the help are made from it, and `check` refuses what is out of range
in Python as well. The core needs no library for this; what comes from a file or a flag is converted in `config`.
"""

from __future__ import annotations

import inspect
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin

from searnn.types import SearnnError

Maker = Callable[..., Any]
Kind = TypeVar("Kind")
FAR = 10**9  # a step no training reaches; every schedule moves in one direction, so its two ends bound it
TESTS = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
BOUNDS = {"ge": "of at least", "gt": "above", "le": "at most", "lt": "below"}
PLAIN = (bool, int, float, str)


@dataclass(frozen=True)
class Setting:
    """What an argument is on the command line and in files, and which values it may have."""

    help: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    choices: tuple[str, ...] = ()  # where they are fewer than those of the annotation
    whole: bool = False  # a number of which only the whole part counts, as of a schedule
    schedule: str = ""  # a schedule that it may be, as an example
    none: str = ""  # the word that stands for None
    unit: int = 1  # what one of the setting is of the argument, as a MiB is 2**20 bytes
    kind: str = ""  # a check of the command line that is no range: "file", "files", "run", "metric", "device"
    name: str = ""  # where it is not the argument's
    axis: str = ""  # the only axis on which it holds, for a part that can be chosen on several
    section: str = ""  # of the file, where it is not that of the axis
    public: bool = True  # whether it has a flag

    @property
    def bounds(self) -> dict[str, float]:
        """Those bounds that there are."""
        found = {"ge": self.ge, "gt": self.gt, "le": self.le, "lt": self.lt}
        return {name: bound for name, bound in found.items() if bound is not None}


@dataclass(frozen=True)
class Argument:
    """An argument of a constructor or a function: its type without what stands for "not set", and its settings."""

    name: str
    type: Any
    choices: tuple[str, ...]
    optional: bool  # whether it may be None
    default: Any
    settings: tuple[Setting, ...]

    @property
    def needed(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    def setting(self, axis: str = "") -> Setting | None:
        """What it is where its owner is chosen on this axis; a setting of the axis goes before one of all."""
        fitting = [setting for setting in self.settings if setting.axis in ("", axis)]
        return max(fitting, key=lambda setting: bool(setting.axis), default=None)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def checked(kind: type[Kind]) -> type[Kind]:
    """Make a class a frozen dataclass whose settings are judged when one is made, before its own `__post_init__`."""
    more: Callable[[Any], None] = getattr(kind, "__post_init__", lambda _: None)

    def judge(made: Any) -> None:
        check(made)
        more(made)

    kind.__post_init__ = judge  # type: ignore[attr-defined]
    return dataclass(frozen=True)(kind)


def listed(words: Sequence[str]) -> str:
    """`a, b or c`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def expected(argument: Argument, setting: Setting) -> str:
    """What the values are, in words."""
    if choices := setting.choices or argument.choices:
        return listed(choices)
    if argument.type is bool:
        return "true or false"
    if argument.type is str:
        return "a text"
    noun = "a whole number" if setting.whole or argument.type is int else "a number"
    limits = " and ".join(f"{BOUNDS[name]} {bound:g}" for name, bound in setting.bounds.items())
    if not setting.schedule:
        return f"{noun} {limits}".strip()
    if None not in (setting.ge, setting.le):
        limits = f"from {setting.ge:g} to {setting.le:g}"
    return f"{f'{noun} {limits}'.strip()} or a schedule such as {setting.schedule}"


def fits(value: Any, argument: Argument, setting: Setting) -> bool:
    """Whether the argument may have this value; what is neither a number nor a word is not judged here."""
    if choices := setting.choices or argument.choices:
        return value in choices
    if argument.type is bool:
        return isinstance(value, bool)
    if argument.type not in (int, float) or (setting.schedule and not isinstance(value, Real) and not callable(value)):
        return True  # a tensor too: a probability that a recorded step reads
    ends = (value(0), value(FAR)) if setting.schedule and callable(value) else (value,)
    if callable(value) and not all(isinstance(end, Real) for end in ends):
        return True  # a schedule whose value stands in a tensor, which was looked at before
    kind = Integral if argument.type is int else Real
    numbers = all(not isinstance(end, bool) and isinstance(end, kind) and _is_finite(end) for end in ends)
    return numbers and all(TESTS[name](end, bound) for name, bound in setting.bounds.items() for end in ends)


def _is_finite(value: Any) -> bool:
    return isinstance(value, Integral) or math.isfinite(value)  # which fails for whole numbers that no float can hold


def check(thing: Any, values: Mapping[str, Any] | None = None) -> None:
    """Refuse what is out of its range: of a dataclass its fields, else the `values` of the arguments."""
    maker: Maker = type(thing) if values is None else thing
    given = vars(thing) if values is None else values
    for argument, setting in _judged(maker):
        value = given.get(argument.name)  # what is handed on to a base is judged there
        if value is None and (argument.optional or argument.name not in given):
            continue
        if not fits(value, argument, setting):
            raise SearnnError(f"{argument.name} is {value!r}, it must be {expected(argument, setting)}")


@cache
def _judged(maker: Maker) -> list[tuple[Argument, Setting]]:
    """The arguments with a range; the first of several settings is that of the argument itself."""
    return [(argument, argument.settings[0]) for argument in arguments(maker).values() if argument.settings]


@cache
def arguments(maker: Maker) -> Mapping[str, Argument]:
    """The arguments that a class or function takes, by name; those too that a class hands on to its base."""
    try:
        parameters = inspect.signature(maker).parameters
    except (TypeError, ValueError):  # some builtin functions do not say
        return {}
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    own = {name: _argument(part, maker) for name, part in parameters.items() if part.kind not in several}
    hands_on = any(part.kind is part.VAR_KEYWORD for part in parameters.values())
    if not inspect.isclass(maker) or not hands_on or maker.__base__ in (None, object):
        return own
    base = {name: part for name, part in arguments(maker.__base__).items() if not part.needed}
    return own | {name: part for name, part in base.items() if name not in own}


def _argument(part: inspect.Parameter, maker: Maker) -> Argument:
    annotation = _evaluated(part.annotation, maker)
    marks: list[Setting] = []
    options = _options(annotation, marks)
    choices = tuple(word for option in options if get_origin(option) is Literal for word in get_args(option))
    plain = [option for option in options if option in PLAIN]
    kind = str if choices else float if {int, float} <= set(plain) else plain[0] if plain else annotation
    return Argument(part.name, kind, choices, type(None) in options, part.default, tuple(marks))


def _options(annotation: Any, marks: list[Setting]) -> list[Any]:
    """The alternatives of an annotation; what it is marked with is added to `marks`."""
    if get_origin(annotation) is Annotated:
        inner, *extra = get_args(annotation)
        found = _options(inner, marks)
        marks += [mark for mark in extra if isinstance(mark, Setting)]
        return found
    if get_origin(annotation) in (Union, UnionType):
        return [option for inner in get_args(annotation) for option in _options(inner, marks)]
    return [annotation]


def _evaluated(annotation: Any, maker: Maker) -> Any:
    """An annotation that stands as text, in the modules of the class and its bases; `Any` where it is not found."""
    if not isinstance(annotation, str):
        return annotation
    origin = inspect.unwrap(maker)
    owners = origin.__mro__[::-1] if inspect.isclass(origin) else (origin,)
    names: dict[str, Any] = {}
    for owner in owners:
        names |= vars(sys.modules.get(owner.__module__, inspect))
    try:
        return eval(annotation, names)
    except Exception:  # a name that is known to the type checker alone, or whatever a user wrote
        return Any
