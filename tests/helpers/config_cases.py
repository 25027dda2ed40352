"""Settings as the tests of the configuration give them, and what is said where they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from searnn.config import from_flags
from searnn.config.schema import Config
from searnn.types import SearnnError

FILES = {"train": ["train.tsv"], "valid": ["valid.tsv"]}  # nothing is read before the task is built
NEEDED = {"pairs": FILES}


def given(**settings: Any) -> Config:
    return from_flags({"name": "copy", **settings})


def refusal(function: Any, *arguments: Any) -> str:
    with pytest.raises(SearnnError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)
