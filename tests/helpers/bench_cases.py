"""Settings so small that a benchmark of them takes a moment, and what it printed."""

from __future__ import annotations

from dataclasses import replace

from searnn.bench import SETTINGS, Setting
from searnn.types import Vocabulary


def tiny(name: str) -> Setting:
    """The setting of this name with everything small, its structure as it is."""
    sizes = {
        "ocr": {"vocab": Vocabulary(6, 6, 7), "features": 5, "cells": 4, "shortest": 2, "choices": (None, 3)},
        "spelling": {"vocab": Vocabulary(7, 7, 8, 6), "source_size": 6, "cells": 4, "choices": (None, 3)},
        "nmt": {"vocab": Vocabulary(11, 11, 12, 10), "source_size": 9, "cells": 5, "choices": (3,)},
    }
    return replace(SETTINGS[name], width=8, batch_size=3, **sizes[name])


def printed(text: str) -> list[dict[str, list[str]]]:
    """Every printed table: its lines by their first entry."""
    found: list[dict[str, list[str]]] = []
    for line in text.splitlines():
        if line[:1] == "|":
            first, *rest = [entry.strip() for entry in line.strip("|").split("|")]
            if first == "":
                found.append({})
            found[-1][first] = rest
    return found
