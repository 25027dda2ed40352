"""Pages that are one file: styles, scripts and data inside, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from searnn.files import write

# The browser itself refuses whatever would go out, and every script and style but those that the page was made with;
# `connect` is for a page that follows a run on this machine.
POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; connect-src {connect}; "
    "base-uri 'none'; form-action 'none'"
)
SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{styles}</style>
</head>
<body>
{body}
<script type="application/json" id="data">{data}</script>
<script>{scripts}</script>
</body>
</html>
"""


def asset(name: str, package: str = "searnn.reports") -> str:
    """The text of a file that lies beside the code."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def self_contained(
    title: str, body: str, data: Any, *, styles: Sequence[str], scripts: Sequence[str], live: bool = False
) -> str:
    """A page with everything it needs inside; scripts find `data` as JSON in the element with the id "data"."""
    style, script = ("\n" + "\n".join(texts) + "\n" for texts in (styles, scripts))
    policy = POLICY.format(script=_hash(script), style=_hash(style), connect="'self'" if live else "'none'")
    return SHELL.format(
        title=escape(title), policy=policy, styles=style, body=body, data=embedded(data), scripts=script
    )


def _hash(text: str) -> str:
    """What a policy calls an inline script or style by, which is all that stands between its tags."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def embedded(data: Any) -> str:
    """JSON that may stand inside a script element, whatever texts are in it."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    # A lone surrogate, which a user's text may hold, has no UTF-8.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def write_page(path: Path, page: str) -> None:
    """Write the page; a reader finds the old one or the new one, never half of one."""
    write(path, page.encode())
