"""Which way the search runs: the plain code, or faster ways of doing the same where they apply.

The plain code serves any model on any device. A fast path asks `triton_applies` before it takes over, and tells by
`announce` that it did. All of them give the plain code's result, up to rounding.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Literal

from torch import Tensor

KINDS = ("auto", "plain", "triton")
PRECISIONS = ("float32", "tf32", "bf16")
log = logging.getLogger("searnn")


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


def triton_applies(tensor: Tensor) -> bool:
    """Whether kernels may run on this tensor: on a GPU with Triton; on a CPU through its interpreter, if asked for."""
    kind = current().kind
    if kind == "plain" or not has_triton():
        return False
    return tensor.is_cuda or (kind == "triton" and interpreted())


def interpreted() -> bool:
    """Whether Triton's kernels are run by its interpreter, on any device: slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


@cache
def announce(path: str) -> None:
    """Log once that a fast path is taken."""
    log.info("engine: %s", path)
