"""Who is told how far a benchmark is, and what it has found."""

from __future__ import annotations

from typing import Any


class Watch:
    """Is told what is being done in so many parts, each of them that is done, and every result; this one is silent."""

    def stage(self, text: str, parts: int) -> None:
        """Something begins."""

    def advance(self) -> None:
        """A part of it is done."""

    def found(self, result: dict[str, Any]) -> None:
        """A result is there."""

    def note(self, text: str) -> None:
        """Something that should be known."""
