"""Numbers as a reader sees them."""

from __future__ import annotations


def percent(share: float, digits: int = 0) -> str:
    """A share as a reader sees it."""
    return f"{100 * share:.{digits}f} %"


def number(value: float) -> str:
    """A number with as many digits as matter."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
