"""Going on with a run: which of its settings may be others then."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from searnn.config import Config, merge, resolve
from searnn.config.registry import flag
from searnn.config.resolving import given_settings
from searnn.runs.folders import settings_of
from searnn.training.state import FREE_TO_CHANGE, SPANS_THE_RUN
from searnn.types import SearnnError

MAY_CHANGE = (*FREE_TO_CHANGE, "threads")


def is_fixed(name: str, before: Mapping[str, Any]) -> bool:
    """Whether a setting must stay as it was when a run with these settings goes on."""
    return name not in MAY_CHANGE or (name == "steps" and before["schedule"] in SPANS_THE_RUN)


def resumed(folder: Path, given: Config) -> Config:
    """The settings of the run, with those that may change as they are given now."""
    saved = settings_of(folder)
    before = saved.flat()
    for name, value in given_settings(given).items():
        if before[name] != value and is_fixed(name, before):
            was = "unset" if before[name] is None else before[name]
            why = f", which --schedule {before['schedule']} runs over" if name == "steps" else ""
            change = f"it was {was}, now it is {value}"
            raise SearnnError(f"{folder} cannot be resumed with another {flag(name)}{why}: {change}")
    return resolve(merge(saved, given))
