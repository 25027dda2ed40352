"""Code that a run's folder names: imported where a command needs it, and only if the user trusts it.

Whoever made a run may name any module in its settings, and to import a module is to run it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

from searnn.config import files, registry
from searnn.config.registry import SEAMS
from searnn.config.resolving import given_settings, resolve
from searnn.config.schema import Config, May, Own, chooses, grouped, own_parts
from searnn.types import SearnnError

Trusted = bool | Collection[str]  # all code, or only the parts with these names, which the user has given
METRIC = "metric"  # a setting that may name code and is no axis
MODEL = ("task", "model")
SEARCH = tuple(axis for axis in SEAMS if axis not in MODEL)
ALL = (*SEAMS, METRIC)


class UntrustedError(SearnnError):
    """A run names code that a command needs and that is not trusted."""


def parts(values: Mapping[str, Any]) -> Own:
    """All that the settings name as `package.module:Name`, the metric too."""
    metric = values.get(METRIC)
    is_own = isinstance(metric, str) and registry.is_own(metric)
    return (*own_parts(values), *([(METRIC, str(metric))] if is_own else []))


def names(values: Mapping[str, Any]) -> set[str]:
    """The parts of the user's own among the settings, by name."""
    return {name for _, name in parts(values)}


def opening(path: Path, trusted: Trusted, axes: Collection[str] = ALL, *, refuse: bool = True) -> May:
    """Whether a part that a run's file names is imported: it is needed, being on one of the axes, and trusted.

    One that is needed and not trusted is refused, or else stays closed.
    """

    def may(axis: str, name: str) -> bool:
        is_trusted = trusted if isinstance(trusted, bool) else name in trusted
        if axis in axes and not is_trusted and refuse:
            raise refusal(path, axis, name)
        return axis in axes and is_trusted

    return may


def refusal(path: Path, axis: str, name: str) -> UntrustedError:
    """What is said where a run's file names code that is not trusted."""
    told = f"{path}: {files.key(chooses(axis))} is {name}, and to import {name.partition(':')[0]} would run its code"
    return UntrustedError(f"{told}: if you trust it, give --trust-code (in Python trust_code=True)")


def refusing(path: Path, axis: str, name: str) -> Callable[..., NoReturn]:
    """A function that stands for one that is not imported."""

    def refused(*_: Any) -> NoReturn:
        raise refusal(path, axis, name)

    return refused


def is_of_run(path: Path) -> bool:
    """Whether a file of settings is that of a run's folder, which it is by its name."""
    return path.name == files.SETTINGS


def given_file(path: Path, trusted: Trusted, beside: Mapping[str, Any]) -> Config:
    """The settings of a file that the user names: its parts are the user's own, unless it is that of a run."""
    if is_of_run(path):
        opened(path, opening(path, trusted))
    return files.read(path, beside=beside)


def opened(path: Path, may: May) -> tuple[Config, Own]:
    """The settings of a run's file as they stand there, and which parts stay closed."""
    saved = files.read(path, may=may)
    return saved, tuple(part for part in parts(saved.flat()) if not may(*part))


def complete(path: Path, may: May) -> Config:
    """All settings of a run's file; those that only a closed part takes are left out."""
    saved, closed = opened(path, may)

    def say(name: str) -> str:
        return f"{path}: {files.key(name)}"

    without = {chooses(axis): None for axis, _ in closed if axis != METRIC}
    if not without:
        return resolve(saved, say=say)
    kind = type(saved)
    known = kind.model_validate(grouped({**saved.flat(), **without}, kind.declared))
    found = resolve(known, say=say, optional=kind.declared)
    return type(found).model_validate(grouped({**found.flat(), **given_settings(saved)}, type(found).declared))
