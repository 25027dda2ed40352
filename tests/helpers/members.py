"""Every member of an axis, made with its defaults, for tests that hold for all: one that is added is among them."""

from __future__ import annotations

from typing import Any

from searnn.config.registry import AXES, make

NEEDED = {"alpha": 1.7, "k": 3, "n": 3}  # what has no default


def members(axis: str, **given: Any) -> dict[str, Any]:
    """The members by name, each with those of the given arguments that it takes."""
    return {name: make(axis, name, **{**NEEDED, **given}) for name in AXES[axis]}
