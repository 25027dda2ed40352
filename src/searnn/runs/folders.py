"""The folder of a run: made for a new one, taken away where nothing came of it; its settings, then and now."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from searnn.config import Config, files, merge, resolve, trust
from searnn.config.registry import flag
from searnn.config.resolving import given_settings
from searnn.files import advice
from searnn.training import World
from searnn.training.memory import shortage
from searnn.training.state import FREE_TO_CHANGE, SPANS_THE_RUN
from searnn.types import SearnnError

SETTINGS = files.SETTINGS
TEXT = "text"  # what a task on text has learned of its data
MAY_CHANGE = (*FREE_TO_CHANGE, "threads")  # when a run is resumed


def settings_of(
    folder: Path, trusted: trust.Trusted, axes: Collection[str] = trust.ALL, *, refuse: bool = True
) -> Config:
    """The settings that a run was made with; of the code that they name only that on these axes is imported.

    What of it is not trusted is refused, or else not imported either.
    """
    if not folder.is_dir():
        raise SearnnError(f"there is no run folder {folder}")
    path = folder / SETTINGS
    if not path.is_file():
        raise SearnnError(f"{folder} is not the folder of a run: it has no {SETTINGS}")
    return trust.complete(path, trust.opening(path, trusted, axes, refuse=refuse))


def is_fixed(name: str, before: Mapping[str, Any]) -> bool:
    """Whether a setting must stay as it was when a run with these settings goes on."""
    return name not in MAY_CHANGE or (name == "steps" and before["schedule"] in SPANS_THE_RUN)


def resumed(folder: Path, given: Config, trusted: trust.Trusted) -> Config:
    """The settings of the run, with those that may change as they are given now."""
    saved = settings_of(folder, trusted)
    before = saved.flat()
    for name, value in given_settings(given).items():
        if before[name] != value and is_fixed(name, before):
            was = "unset" if before[name] is None else before[name]
            why = f", which --schedule {before['schedule']} runs over" if name == "steps" else ""
            change = f"it was {was}, now it is {value}"
            raise SearnnError(f"{folder} cannot be resumed with another {flag(name)}{why}: {change}")
    return resolve(merge(saved, given))


def runs_in(folders: Iterable[Path]) -> list[Path]:
    """The folders of runs: those that are named, and those in folders that are no runs themselves."""
    found: dict[Path, Path] = {}
    for folder in folders:
        inside = []
        if folder.is_dir() and not any((folder / name).is_file() for name in (SETTINGS, "metrics.jsonl")):
            inside = [path.parent for path in sorted(folder.glob(f"*/{SETTINGS}"))]
        for path in inside or [folder]:
            if path.resolve() in found:
                raise SearnnError(f"the run {path} was given twice")
            found[path.resolve()] = path
    return list(found.values())


def is_taken(folder: Path) -> bool:
    """Whether there is something already: a file, or a folder that holds one."""
    return folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))


def make_folder(folder: Path | None, config: Config) -> Path:
    """The folder, made where it was not there; without one the first of `runs/TASK-ALGORITHM-1`, `-2` that is free."""
    try:
        number = 0
        while folder is None:
            number += 1
            place = Path("runs", f"{config.task.name}-{config.method.algorithm}-{number}")
            with suppress(FileExistsError):
                place.mkdir(parents=True)  # made at once so that nobody else takes it
                folder = place
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    except OSError as error:
        raise SearnnError(f"cannot make the folder {error.filename or folder}: {advice(error)}") from error


@contextmanager
def claimed(folder: Path | None, config: Config, world: World) -> Iterator[Path]:
    """A folder for a new run; all that was made is taken away where training fails before its first checkpoint.

    The same where memory runs out before the first evaluation: it cannot be resumed with what would need less.
    """
    wanted = folder if folder is not None else Path("runs", "new")
    before = {place for place in (wanted, *wanted.parents) if place.exists()}
    place = world.by_first(lambda: make_folder(folder, config))
    try:
        yield place
    except BaseException as error:
        needed = "best" if shortage(error) else "last"
        if world.first and not any((place / needed).glob("*.json")):
            shutil.rmtree(place, ignore_errors=True)
            if place in before:
                place.mkdir(exist_ok=True)
            with suppress(OSError):  # someone else has put something there
                for parent in place.parents:
                    if parent not in before:
                        parent.rmdir()
        raise
