"""The page: one HTML file with its style, its script and its numbers inside, which opens without a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from searnn.reports.html import asset, self_contained

HERE = "searnn.reports.explain"


def make_page(explanation: Mapping[str, Any]) -> str:
    """The explanation that `describe` made, as a page."""
    return self_contained(
        f"{explanation['title']}: what each token costs",
        asset("body.html", HERE),
        explanation,
        styles=[asset("base.css"), asset("style.css", HERE)],
        scripts=[
            asset("elements.js"),
            *(asset(name, HERE) for name in ("numbers.js", "picture.js", "board.js", "page.js")),
        ],
    )
