"""What a run remembers besides tensors, how it ends, and whether its folder may be used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from searnn.files import advice, make_folder
from searnn.training import checkpoints
from searnn.training.settings import FALLING, TrainingSettings
from searnn.training.world import AgreedError, World
from searnn.types import SearnnError

FREE_TO_CHANGE = (  # when a run is resumed
    "steps", "minutes", "patience", "accumulate", "device", "tensorboard", "engine", "keep_every"
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How training ended; the best model is in `best/`."""

    steps: int
    best_step: int
    best_metric: float | None
    stopped: str  # "steps", "minutes", "patience" or "interrupted"
    seconds: float  # all of it, evaluations and what was spent before a resume included
    seconds_per_step: float  # of training alone


def claim(folder: Path, resume: bool) -> bool:
    """Whether there is something to resume; refuses a folder that would be overwritten or that lost its checkpoint.

    The caller holds the folder: what is found stays so.
    """
    saved = checkpoints.exists(folder / "last")
    records = folder / "metrics.jsonl"
    used = saved or checkpoints.exists(folder / "best") or (records.exists() and records.stat().st_size > 0)
    if used and not resume:
        raise SearnnError(f"{folder} already holds a run: resume it, or give another folder")
    if used and not saved:
        raise SearnnError(f"{folder / 'last'} has no checkpoint to resume from: restore it from a copy, or train anew")
    return saved  # a run that was killed before its first save begins again: that is where it stood


@contextmanager
def held(folder: Path, wait: bool = False) -> Iterator[bool]:
    """Make the folder and keep other processes out, or `wait` for them; the system lets go when this one ends, however.

    Yields whether it is held: not where the system, or the file system, has no locks.
    """
    try:
        handle = _lock(folder, wait)
    except BlockingIOError:
        told = "another process is training there: wait until it has ended, or give another folder"
        raise SearnnError(f"{folder} is in use, {told}") from None
    except OSError as error:
        raise SearnnError(f"cannot write {folder}: {advice(error)}") from None
    try:
        yield handle is not None
    finally:
        if handle is not None:
            os.close(handle)


def _lock(folder: Path, wait: bool) -> int | None:
    """The handle of the folder, made where it is not, that holds it until closed; None where there are no locks."""
    if find_spec("fcntl") is None:
        make_folder(folder)
        return None
    import fcntl

    while True:
        make_folder(folder)
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise
        except OSError:
            os.close(handle)
            return None
        with suppress(FileNotFoundError):  # whoever held it before may have removed it, and another made it anew
            if os.path.samestat(os.fstat(handle), folder.stat()):
                return handle
        os.close(handle)


def check_same_data(world: World, digests: tuple[Any, ...]) -> None:
    """Refuse ranks that would train on different things; `digests` are those of the data and of the vocabulary."""
    if len(set(world.gather(digests))) > 1:
        raise AgreedError("the ranks have read different data or vocabularies: give all machines the same files")


def spanned(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The limits of the run that its learning rate depends on, which then must stay."""
    if settings["schedule"] not in FALLING:
        return ()
    return ("steps", "minutes") if settings["steps"] in (None, "none") else ("steps",)


def check_settings(settings: TrainingSettings, saved: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume with settings under which the steps already made would have been others.

    What a run of an earlier version does not name it had as it is by default.
    """
    saved = asdict(TrainingSettings()) | dict(saved)
    for name, value in asdict(settings).items():
        spans = name in spanned(saved)
        if (spans or name not in FREE_TO_CHANGE) and saved.get(name) != value:
            why = f", which the {settings.schedule} learning rate runs over" if spans else ""
            change = f"{name} was {saved.get(name)!r} and is now {value!r}{why}"
            raise SearnnError(f"cannot resume {folder}: {change}; keep the run's own settings, or train anew")
