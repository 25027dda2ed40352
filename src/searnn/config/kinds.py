"""Settings that are more than a number or a word: schedules, members of an axis, joined samplers, devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from searnn import schedules
from searnn.config import registry
from searnn.settings import Argument, Setting, expected, fits, listed
from searnn.tasks.common.metrics import NAMES as METRICS
from searnn.types import SearnnError


@dataclass(frozen=True)
class Kind:
    """A check that returns the value as it is kept, or raises ValueError; `expected` says what it accepts."""

    check: Callable[[Any], Any]
    expected: str
    choices: tuple[str, ...] = ()
    metavar: str = "NAME"

    def __call__(self, value: Any) -> Any:
        return self.check(value)


def member(axis: str) -> Kind:
    """A name on an axis, or `package.module:Name`."""
    names = tuple(registry.AXES[axis])

    def check(value: str) -> str:
        if value not in names and not registry.is_own(value):
            raise ValueError(f"must be {expected}, got {value!r}{registry.suggestion(value, list(names))}")
        return value

    expected = f"{listed(names)}, or package.module:Name"
    return Kind(check, expected, names)


def split_tokens(text: str) -> list[tuple[str, int | None]]:
    """`top:15+neighbours` as `[("top", 15), ("neighbours", None)]`; a name with a colon may be the user's own."""
    members: list[tuple[str, int | None]] = []
    for part in text.split("+"):
        head, colon, tail = part.rpartition(":")
        name, number = (head, int(tail)) if colon and tail.isdecimal() else (part, None)
        members.append((name, number))
    return members


def _check_tokens(text: str) -> str:
    names = list(registry.AXES["tokens"])
    for name, number in split_tokens(text):
        if name not in names and not registry.is_own(name):
            raise ValueError(f"must be {tokens.expected}, got {text!r}{registry.suggestion(name, names)}")
        if number is not None and (number < 1 or name not in registry.takers("tokens", "k")):
            raise ValueError(f"{name}:{number} is not a number of candidates that {name!r} can take")
    if len(split_tokens(text)) > 1 and "all" in text.split("+"):
        raise ValueError("all tokens are candidates already: nothing can be joined to 'all'")
    return text


_NAMES = tuple(registry.AXES["tokens"])
tokens = Kind(_check_tokens, f"{listed(_NAMES)}, several as in top:15+neighbours:10, or package.module:Name", _NAMES)


def scheduled(argument: Argument, setting: Setting) -> Kind:
    """A number, or a schedule, which stays text and is parsed again where it is used."""
    told = expected(argument, setting)

    def check(value: int | float | str) -> int | float | str:
        try:
            parsed = schedules.parse(value) if isinstance(value, str) else value
        except SearnnError as error:
            raise ValueError(f"must be {told}: {error}") from error
        is_whole = callable(parsed) or not setting.whole or parsed == parsed // 1
        if not fits(parsed, argument, setting) or not is_whole:
            raise ValueError(f"must be {told}, got {value!r}")
        return str(value) if callable(parsed) else int(parsed) if setting.whole else float(parsed)

    return Kind(check, told, metavar="N" if setting.whole else "X")


def _check_files(paths: list[str]) -> list[str]:
    if not paths:
        raise ValueError(f"must be {files.expected}")
    return [str(file(path)) for path in paths]


file = Kind(lambda text: str(Path(text).expanduser().absolute()), "the path of a file", metavar="FILE")
files = Kind(_check_files, "one or more paths of files", metavar="FILE")
run = Kind(lambda text: str(Path(text).expanduser().absolute()), "the folder of a run", metavar="RUN")


def _check_metric(name: str) -> str:
    if name not in METRICS and not registry.is_own(name):
        raise ValueError(f"must be {metric.expected}, got {name!r}{registry.suggestion(name, list(METRICS))}")
    return name


metric = Kind(_check_metric, f"{listed(METRICS)}, or package.module:function")


def _check_device(text: str) -> str:
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise ValueError(f"must be {device.expected}, got {text!r}{registry.suggestion(text, list(device.choices))}")
    return text


device = Kind(_check_device, "auto, cpu, cuda or cuda:N", ("auto", "cpu", "cuda"))
KINDS = {"file": file, "files": files, "run": run, "metric": metric, "device": device}
