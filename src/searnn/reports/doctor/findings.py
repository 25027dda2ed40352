"""What the doctor says: one thing that is off, why that matters and what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from searnn.reports.recorded import Recorded

DROPOUT = 0.3  # of a recurrent model that reads text


@dataclass(frozen=True)
class Finding:
    """One finding in words; a `note` is worth knowing, a `warning` is worth acting on."""

    kind: str
    level: str  # "warning" or "note"
    title: str
    reason: str
    remedy: str


def unset(run: Recorded) -> list[str]:
    """Settings that usually help a model, as far as the run has not had them."""
    dropout, smoothing = run.setting("dropout"), run.setting("label_smoothing")
    found = []
    if run.setting("average") == 0:
        found.append("--average 0.999")
    if isinstance(dropout, (int, float)) and dropout < DROPOUT:
        found.append(f"--dropout {DROPOUT}")
    if smoothing == 0:
        found.append("--label-smoothing 0.1")
    if run.setting("schedule") == "constant":
        found.append("--schedule plateau")
    return found


def listed(settings: Sequence[str], last: str = "and") -> str:
    """`a, b and c`."""
    return f" {last} ".join(filter(None, [", ".join(settings[:-1]), *settings[-1:]]))


Check = Callable[[Recorded], Finding | None]
