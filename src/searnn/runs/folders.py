"""The folder that a new run is given: made, and taken away again where nothing came of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from searnn.config.schema import Config
from searnn.files import advice
from searnn.types import SearnnError


def is_taken(folder: Path) -> bool:
    """Whether there is something already: a file, or a folder that holds one."""
    return folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))


def make_folder(folder: Path | None, config: Config) -> Path:
    """The folder, made where it was not there; without one given, one that is free."""
    try:
        place = folder if folder is not None else _free_folder(config)
        place.mkdir(parents=True, exist_ok=True)
        return place
    except OSError as error:
        raise SearnnError(f"cannot make the folder {error.filename or folder}: {advice(error)}") from error


def _free_folder(config: Config) -> Path:
    """The first of `runs/TASK-ALGORITHM-1`, `-2` and so on that is free, made at once so that nobody else takes it."""
    number = 1
    while True:
        place = Path("runs", f"{config.task.name}-{config.method.algorithm}-{number}")
        try:
            place.mkdir(parents=True)
            return place
        except FileExistsError:
            number += 1


def remove_folder(place: Path, keep: bool) -> None:
    """Take away what is in the folder, and the folder itself unless it is to be kept."""
    shutil.rmtree(place, ignore_errors=True)
    if keep:
        place.mkdir(exist_ok=True)
