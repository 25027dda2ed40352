"""What the doctor says: one thing that is off, why that matters and what to do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from searnn.reports.recorded import Recorded


@dataclass(frozen=True)
class Finding:
    """One finding in words; a `note` is worth knowing, a `warning` is worth acting on."""

    kind: str
    level: str  # "warning" or "note"
    title: str
    reason: str
    remedy: str


Check = Callable[[Recorded], Finding | None]
