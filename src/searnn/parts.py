"""A batch in parts, one for each process that trains, and more where memory is short: which part is worked on now.

A part is searched as it would be inside its batch: whoever draws random numbers for the examples draws them for the
whole batch and takes those of the part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Part:
    """Part number `index` of `count`: the examples `rows` of a batch of `whole` examples."""

    index: int
    count: int
    whole: int
    rows: Int[Tensor, "N"]


_CURRENT: ContextVar[Part | None] = ContextVar("part", default=None)


def current() -> Part | None:
    """The part that the code that runs now works on; None where it has a whole batch."""
    return _CURRENT.get()


@contextmanager
def using(part: Part | None) -> Iterator[None]:
    """What is inside works on this part."""
    token = _CURRENT.set(part)
    try:
        yield
    finally:
        _CURRENT.reset(token)
