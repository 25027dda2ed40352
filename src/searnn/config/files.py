"""Configurations read from flags and TOML files, both checked by the one schema, and written to a run's folder."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from searnn import files
from searnn.config import messages
from searnn.config.registry import flag
from searnn.config.schema import GROUP_OF, Config, grouped
from searnn.types import SearnnError


def from_flags(values: Mapping[str, Any]) -> Config:
    """Settings given as text, by name."""
    try:
        return Config.model_validate(grouped(dict(values)))
    except ValidationError as error:
        raise SearnnError(messages.sentence(error, flag)) from error


def read(path: Path) -> Config:
    """Settings of a TOML file, each in the section of its group."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SearnnError(f"there is no file {path}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SearnnError(f"{path} is not a TOML file: {error}") from error
    try:
        # A file has types of its own, so nothing is converted: k = "5" is as wrong as k = true.
        return Config.model_validate(content, strict=True)
    except ValidationError as error:
        raise SearnnError(f"{path}: {messages.sentence(error, key)}") from error


def key(name: str) -> str:
    """A setting as it stands in a file."""
    return f"{GROUP_OF[name]}.{name}"


def write(config: Config, path: Path) -> None:
    """Write the settings that are set; the file appears whole or not at all."""
    files.write(path, tomli_w.dumps(config.model_dump(exclude_none=True)).encode())
