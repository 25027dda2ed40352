"""Made-up runs for tests of the report: a sound one, and what is changed in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w

from searnn.reports.page import Recorded, read_run

Change = Callable[[int], Any]  # what a record has instead, by its number from 0
SETTINGS: dict[str, dict[str, Any]] = {
    "task": {"name": "copy", "length": 8},
    "method": {"algorithm": "searnn"},
    "search": {"roll_in": "learned", "roll_out": "mixed", "cost": "edit", "tokens": "all"},
    "loss": {"loss": "kl", "alpha": 30.0},
    "optimisation": {"lr": 0.001, "clip": 5.0, "schedule": "constant", "steps": 2000, "minutes": "none"},
    "run": {"seed": 0},
}


def sound(number: int) -> dict[str, Any]:
    """An evaluation of a run in which nothing is off, as far as one can see."""
    left = math.exp(-0.35 * number)
    return {
        "step": 100 * (number + 1),
        "valid_error": 0.05 + 0.8 * left + (0.0 if number % 3 else 0.01),
        "train_loss": 1.0 + 4 * left,
        "gradient_norm": 1.0 + left,
        "learning_rate": 0.001,
        "entropy": 0.5 + left,
        "teacher_forced_loss": 0.5 + 2 * left,
        "free_running_loss": 0.6 + 2.2 * left,
        "exposure_gap": 0.1 + 0.2 * left,
        "equal_cost_share": 0.05,
        "cost_spread": 0.4,
        "cheapest_not_true_share": 0.1,
        "steps_per_second": 50.0,
        "seconds": 2.5 * (number + 1),
    }


def records(count: int = 13, **changes: Change) -> list[dict[str, Any]]:
    """The evaluations of a run, with some of what they say made by functions of their number."""
    return [sound(number) | {name: change(number) for name, change in changes.items()} for number in range(count)]


def with_settings(**changes: Any) -> dict[str, dict[str, Any]]:
    """The settings with some of them changed; None takes one away."""
    made = {group: dict(values) for group, values in SETTINGS.items()}
    for name, value in changes.items():
        group = next((group for group, values in SETTINGS.items() if name in values), "optimisation")
        made[group][name] = value
        if value is None:
            del made[group][name]
    return made


def write_run(folder: Path, lines: list[dict[str, Any]], settings: dict[str, dict[str, Any]] | None = None) -> Path:
    """A run's folder with those records."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "config.toml").write_text(tomli_w.dumps(SETTINGS if settings is None else settings))
    return folder


def made_run(folder: Path, count: int = 13, settings: dict[str, Any] | None = None, **changes: Change) -> Recorded:
    """A run read back from the disk."""
    return read_run(write_run(folder, records(count, **changes), with_settings(**(settings or {}))))


def data_of(text: str) -> dict[str, Any]:
    """The data inside a page."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])
