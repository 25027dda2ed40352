"""What the doctor says: one thing that is off, why that matters and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from searnn.reports.page.recorded import VALID, Recorded


@dataclass(frozen=True)
class Finding:
    """One finding in words; a `note` is worth knowing, a `warning` is worth acting on."""

    kind: str
    level: str  # "warning" or "note"
    title: str
    reason: str
    remedy: str


Check = Callable[[Recorded], Finding | None]


def mean(values: Sequence[float]) -> float | None:
    """The mean, None of nothing."""
    return sum(values) / len(values) if values else None


def percent(share: float) -> str:
    """A share as a reader sees it."""
    return f"{100 * share:.0f} %"


def number(value: float) -> str:
    """A number with as many digits as matter."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def words(name: str) -> str:
    """The name of a record as a title or a sentence begins with it."""
    text = name.removeprefix(VALID).replace("_", " ")
    return text.upper() if text in ("bleu", "per", "f1") else text[:1].upper() + text[1:]
