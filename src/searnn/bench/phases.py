"""Where the time of a step goes: a clock that is told when a phase begins and ends, and objects that tell it.

Nothing in the package knows of it: the objects given to an algorithm are copied, and methods of the copies are wrapped.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import MethodType
from typing import Any, TypeVar

import torch

PHASES = ("encode", "roll-in", "trace", "roll-out", "cost", "loss", "backward", "optimiser", "other")

Thing = TypeVar("Thing")
Around = Callable[..., Any]  # takes the original method, then its arguments


class Clock:
    """Notes at every change of phase what time it is; a phase inside another one stops the outer.

    On a GPU the marks are events in its queue, so that nothing waits for them until the times are asked for.
    """

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.open = ["other"]
        self.marks: list[tuple[str, Any]] = []  # the phase that begins, and when

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """What runs inside belongs to this phase."""
        self.open.append(name)
        self._mark()
        try:
            yield
        finally:
            self.open.pop()
            self._mark()

    @contextmanager
    def running(self) -> Iterator[None]:
        """The whole step: begins and ends outside all phases."""
        if self.on_gpu:
            torch.cuda.synchronize()
        self.marks.clear()
        self._mark()
        try:
            yield
        finally:
            self._mark()

    def around(self, name: str) -> Around:
        """For `altered`: a method that is a phase."""

        def method(original: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            with self.phase(name):
                return original(*arguments, **named)

        return method

    def times(self) -> dict[str, float]:
        """Milliseconds of every phase; they add up to those of the whole step."""
        if self.on_gpu:
            torch.cuda.synchronize()
        found = dict.fromkeys(PHASES, 0.0)
        for (name, began), (_, ended) in zip(self.marks, self.marks[1:], strict=False):
            found[name] += began.elapsed_time(ended) if self.on_gpu else 1e3 * (ended - began)
        return found

    def _mark(self) -> None:
        if self.on_gpu:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            self.marks.append((self.open[-1], event))
        else:
            self.marks.append((self.open[-1], time.perf_counter()))


def altered(thing: Thing, **methods: Around) -> Thing:
    """A shallow copy with other methods, each given the original first; names that the thing lacks are passed over.

    The copy is of the same type and has the same fields, so that whatever looks at these treats it the same.
    """
    twin = copy.copy(thing)
    for name, method in methods.items():
        if (original := getattr(type(thing), name, None)) is not None:
            object.__setattr__(twin, name, partial(method, MethodType(original, twin)))
    return twin


def altered_call(thing: Thing, method: Around) -> Thing:
    """The same for what is called itself. Python looks for that in the type, so the copy is of a type derived of it."""
    kind, twin = type(thing), copy.copy(thing)
    original = kind.__call__

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        return method(partial(original, self), *arguments, **named)

    object.__setattr__(twin, "__class__", type(kind.__name__, (kind,), {"__call__": call}))
    return twin
