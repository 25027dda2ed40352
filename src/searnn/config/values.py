"""Settings given as Python's own values: paths, functions and classes among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from searnn.config.files import from_flags
from searnn.config.resolving import resolve
from searnn.config.schema import Config
from searnn.types import SearnnError

FILES = ("train", "valid", "test")  # settings that are files


def from_values(task: str, settings: Mapping[str, Any]) -> Config:
    """The complete settings; what is wrong is said by the argument's name."""
    values = {name: _as_in_a_file(name, value) for name, value in settings.items()}
    return resolve(from_flags({**values, "name": task}, str), say=str)


def _as_in_a_file(name: str, value: Any) -> Any:
    """A setting as a file can hold it: paths as text, one file as a list, functions and classes by where they stand."""
    if name in FILES and value is not None:
        paths = [value] if isinstance(value, (str, Path)) else value
        return [str(path) for path in paths]
    if isinstance(value, Path):
        return str(value)
    if callable(value):
        return _importable(name, value)
    return value


def _importable(name: str, value: Callable[..., Any]) -> str:
    place, word = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if place is None or not word.isidentifier():
        told = "give a function or class that stands by its name in a module"
        raise SearnnError(f"{name} is {value!r}, which cannot be found again when the run is opened: {told}")
    return f"{place}:{word}"
