"""Who is told how far a benchmark is, and what it has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Watch(Protocol):
    """Is told what is being done in so many parts, each part that is done, and every result as soon as it is there."""

    def stage(self, text: str, parts: int) -> None: ...

    def advance(self) -> None: ...

    def found(self, kind: str, part: Mapping[str, Any]) -> None: ...

    def note(self, text: str) -> None: ...


class Silent:
    """Nobody is told."""

    def stage(self, text: str, parts: int) -> None:
        """Something begins."""

    def advance(self) -> None:
        """A part of it is done."""

    def found(self, kind: str, part: Mapping[str, Any]) -> None:
        """A result is there: the part of the report, and of which kind it is."""

    def note(self, text: str) -> None:
        """Something that should be known."""
