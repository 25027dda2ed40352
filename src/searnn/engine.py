"""Which way plain functions run: as they are written, or in a faster way that gives the same up to rounding.

The plain code serves any model on any device. A function that is `replaceable` may have faster ways in `searnn.fast`,
each of which says itself whether it applies. This is the only place that knows of them, and without that package
everything works as it is written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, wraps
from importlib.util import find_spec
from typing import Any, Literal, TypeVar, cast

import torch
from torch.profiler import record_function

KINDS = ("auto", "plain", "triton")
PRECISIONS = ("float32", "tf32", "bf16")
# What the host has and whether steps are recorded does not depend on the engine, which is that of the search.
OF_THE_HOST = (
    "searnn.engine.has_kernels", "searnn.training.recording.records_steps", "searnn.training.recording.recorder"
)  # fmt: skip
log = logging.getLogger("searnn")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Engine:
    """`kind` is "auto" (fast paths where they apply), "plain" (none), or "triton" (its kernels or an error).

    `precision` is that of the products in the search; what is learned from it is always learned in the model's own.
    """

    kind: Literal["auto", "plain", "triton"] = "auto"
    precision: Literal["float32", "tf32", "bf16"] = "float32"


_CURRENT: ContextVar[Engine] = ContextVar("engine", default=Engine())  # noqa: B039  frozen


def current() -> Engine:
    """The engine of the code that runs now."""
    return _CURRENT.get()


@contextmanager
def using(engine: Engine) -> Iterator[None]:
    """Run what is inside with this engine."""
    token = _CURRENT.set(engine)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def replaceable(function: Function) -> Function:
    """Marks a plain function that may be run in a faster way: the first that applies, or the function as it stands.

    A faster way takes the same arguments, and gives None where it does not apply.
    """
    name = f"{function.__module__}.{function.__qualname__}"
    asked = name in OF_THE_HOST

    @wraps(function)
    def run(*arguments: Any, **settings: Any) -> Any:
        if asked or current().kind != "plain":
            for way in _faster_ways(name):
                found = way(*arguments, **settings)
                if found is not None:
                    return found
        return function(*arguments, **settings)

    return cast(Function, run)


@cache
def _faster_ways(name: str) -> tuple[Callable[..., Any], ...]:
    """The faster ways of a function, where the package that has them is there."""
    if find_spec("searnn.fast") is None:
        return ()
    from searnn import fast

    return fast.ways_of(name)


@replaceable
def has_kernels(device: torch.device) -> bool:  # noqa: ARG001
    """Whether there are kernels for this device; the plain code has none."""
    return False


def span(stage: str) -> AbstractContextManager[object]:
    """What is inside under a name of its own, `searnn.STAGE`, in a profile by torch; free while none is made."""
    return record_function(f"searnn.{stage}") if torch._C._autograd._profiler_enabled() else nullcontext()


@cache
def announce(path: str) -> None:
    """Log once that a fast path is taken, or why not."""
    log.info("engine: %s", path)
