"""Runs started from Python: `searnn.train`, whose settings may be Python's own values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from searnn.config import Config, from_flags, resolve
from searnn.files import write
from searnn.runs.folders import is_taken
from searnn.runs.run import Run, load
from searnn.runs.start import start
from searnn.types import SearnnError

FILES = ("train", "valid", "test")  # settings that are files
DATA = "data"  # where pairs that were given as lists are kept in a run's folder


def train(task: str, *, run: str | Path | None = None, show: bool = True, **settings: Any) -> Run:
    """Train as `searnn train TASK` does, and open the run with its best model.

    `settings` are the flags of the command line without their dashes, such as `algorithm="mle"` or `steps=1000`. For
    pairs `train`, `valid` and `test` are files, or lists of (source, target), which are kept in the run's folder. Where
    the command line takes `package.module:Name`, a function or class does too. `run` is the folder [runs/TASK-...-N].
    The folder gets its `report.html`. Ctrl-C ends the training; what was best so far is opened, without a report.
    """
    folder = None if run is None else Path(run)
    if folder is not None and is_taken(folder):
        told = f"open it with searnn.load, or go on with searnn train {task} --run {folder} --resume"
        raise SearnnError(f"run is {folder}, which exists already: give another folder, {told}")
    lists = {name: settings[name] for name in FILES if _is_pairs(settings.get(name))}
    given = {**settings, **{name: f"{name}.tsv" for name in lists}}
    values = {name: _as_in_a_file(name, value) for name, value in given.items()}
    config = resolve(from_flags({**values, "name": task}, str), say=str)

    def keep(config: Config, place: Path) -> Config:
        written = {name: [str(_write_pairs(name, pairs, place / DATA))] for name, pairs in lists.items()}
        return config.model_copy(update={"task": config.task.model_copy(update=written)})

    trained = start(config, folder, keep=keep, show=show)
    return load(trained.folder, device=config.run.device or "auto", trust_code=True)  # the code was given here


def _is_pairs(value: Any) -> bool:
    """Whether data were given as sources and targets, not as files."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and len(value) > 0 and not isinstance(value[0], (str, Path))


def _write_pairs(name: str, pairs: Sequence[Any], folder: Path) -> Path:
    """Keep the pairs as a file with tabs, so that the run can be opened again."""
    lines = []
    for number, pair in enumerate(pairs):
        good = isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(side, str) for side in pair)
        if not good or any(sign in side for side in pair for sign in "\t\n\r\0"):
            told = "expected (source, target), two texts of one line without tabs"
            raise SearnnError(f"{name}[{number}] is {pair!r}: {told}")
        lines.append(f"{pair[0]}\t{pair[1]}\n")
    path = folder / f"{name}.tsv"
    write(path, "".join(lines).encode())
    return path.resolve()


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
