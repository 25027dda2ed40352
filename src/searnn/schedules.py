"""Settings that change while training: a schedule is a value that is called with the step.

`at` turns whatever holds schedules into the same thing with plain numbers, so that nothing else has to know of them.
"""

from __future__ import annotations

import math
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Annotated, Any, ClassVar, Protocol, TypeVar, get_type_hints, runtime_checkable

from searnn import tree
from searnn.interfaces import Phased
from searnn.settings import Setting, checked
from searnn.types import SearnnError

Node = TypeVar("Node")
Number = Annotated[float, Setting("a finite number")]


@runtime_checkable
class Schedule(Protocol):
    """A number for every step; `scheduled = True` tells it from everything else that can be called."""

    scheduled: ClassVar[bool]

    def __call__(self, step: int) -> float: ...


@checked
class Constant:
    """The same `value` at every step."""

    name: ClassVar[str] = "constant"
    scheduled: ClassVar[bool] = True
    value: Number

    def __call__(self, step: int) -> float:
        return float(self.value)


@checked
class Linear:
    """From `start` to `end` in `steps` steps along a line, then `end`."""

    name: ClassVar[str] = "linear"
    scheduled: ClassVar[bool] = True
    start: Number
    end: Number
    steps: Annotated[int, Setting("steps to the end", ge=1)]

    def __call__(self, step: int) -> float:
        part = min(step / self.steps, 1.0)
        value = (1 - part) * self.start + part * self.end
        # Rounding may step over an end, and a probability a hair above 1 would be refused.
        return float(min(max(value, min(self.start, self.end)), max(self.start, self.end)))


@checked
class Exponential:
    """`start * decay^step`, and never below `floor`; up to a `floor` above: `floor - (floor - start) * decay^step`."""

    name: ClassVar[str] = "exponential"
    scheduled: ClassVar[bool] = True
    start: Number
    decay: Annotated[float, Setting("factor of a step", gt=0, le=1)]
    floor: Number = 0.0

    def __call__(self, step: int) -> float:
        if self.start < self.floor:
            return float(self.floor - (self.floor - self.start) * self.decay**step)
        return float(max(self.floor, self.start * self.decay**step))


@checked
class InverseSigmoid:
    """Scheduled sampling's decay: `end + (start - end) / (1 + exp(12 i / (N - 1) - 6))` at step i of `steps` N."""

    name: ClassVar[str] = "inverse-sigmoid"
    scheduled: ClassVar[bool] = True
    steps: Annotated[int, Setting("steps to the end", ge=2)]
    start: Number = 1.0
    end: Number = 0.0

    def __call__(self, step: int) -> float:
        # 1 / (1 + exp(x)) by the hyperbolic tangent, which cannot overflow after the last step.
        part = (1 - math.tanh(6 * step / (self.steps - 1) - 3)) / 2
        return self.end + (self.start - self.end) * part


@checked
class Stepwise:
    """`initial + increment * step / every`; who needs whole numbers (focused costing) takes the floor."""

    name: ClassVar[str] = "stepwise"
    scheduled: ClassVar[bool] = True
    initial: Number
    increment: Number
    every: Annotated[int, Setting("steps of an increment", ge=1)]

    def __call__(self, step: int) -> float:
        return self.initial + self.increment * step / self.every


def at(node: Node, step: int) -> Node:
    """The same dataclass with every schedule in it, however deep, replaced by its value at this step.

    What has a method `at` itself (an algorithm with phases, often a module) says what it is at this step; schedules in
    what it gives are replaced likewise. What holds no schedule is returned as it is, and so is whatever is neither a
    dataclass nor a tuple (a module with parameters of its own, unless it is a dataclass too).
    """
    return _resolve(node, step)  # type: ignore[no-any-return]


def _resolve(node: Any, step: int, asked: bool = False) -> Any:
    """`at`, of a part of something that was `asked` itself: a phase often holds the module that gave it."""
    if isinstance(node, Schedule) and not isinstance(node, type):
        return node(step)
    if type(node) is tuple:
        children = tuple(_resolve(child, step, asked) for child in node)
        return children if any(new is not old for new, old in zip(children, node, strict=True)) else node
    if not asked and not isinstance(node, type) and isinstance(node, Phased):
        return _resolve(node.at(step), step, asked=True)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    old = dict(tree.field_values(node))
    new = {name: _resolve(value, step, asked) for name, value in old.items()}
    changed = {name: value for name, value in new.items() if value is not old[name]}
    return replace(node, **changed) if changed else node


_KINDS: tuple[type[Any], ...] = (Constant, Linear, Exponential, InverseSigmoid, Stepwise)


def written(schedule: Schedule) -> str:
    """A schedule of this module as `parse` reads it: `linear:1:0:10000`."""
    values = [value for _, value in tree.field_values(schedule)]
    numbers = [repr(int(value) if value == int(value) else value) for value in values]
    return ":".join([schedule.name, *numbers])  # type: ignore[attr-defined]


def _usage(kind: type[Any]) -> str:
    """How a schedule is written, e.g. `exponential:START:DECAY[:FLOOR]`."""
    parts = (f":{item.name.upper()}" if item.default is MISSING else f"[:{item.name.upper()}]" for item in fields(kind))
    return f"{kind.name}{''.join(parts)}"


def parse(text: str) -> float | Schedule:
    """A number, or a schedule written as its name and its values: `linear:1:0:10000`."""
    name, *words = text.strip().split(":")
    kind = next((kind for kind in _KINDS if kind.name == name), None)
    if kind is None:
        try:
            number = float(text)
        except ValueError:
            known = ", ".join(_usage(kind) for kind in _KINDS)
            raise SearnnError(f"{text!r} is no number and no schedule: give a number or one of {known}") from None
        if not math.isfinite(number):
            raise SearnnError(f"{text!r} is not finite: give a finite number")
        return number
    hints = get_type_hints(kind)
    needed = sum(item.default is MISSING for item in fields(kind))
    try:
        if not needed <= len(words) <= len(fields(kind)):
            raise ValueError
        values = [hints[item.name](word) for item, word in zip(fields(kind), words, strict=False)]
    except ValueError:
        raise SearnnError(f"schedule {text!r} is not written as {_usage(kind)}") from None
    schedule: Schedule = kind(*values)
    return schedule
