"""What a run remembers besides tensors, how it ends, and whether its folder may be used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from searnn.files import advice
from searnn.training import checkpoints
from searnn.training.settings import TrainingSettings
from searnn.training.world import AgreedError, World
from searnn.types import SearnnError

FREE_TO_CHANGE = (  # when a run is resumed
    "steps", "minutes", "patience", "accumulate", "device", "tensorboard", "engine", "keep_every"
)  # fmt: skip
SPANS_THE_RUN = ("linear", "cosine")  # learning rates that depend on the number of steps, which then must stay


@dataclass(frozen=True)
class Outcome:
    """How training ended; the best model is in `best/`."""

    steps: int
    best_step: int
    best_metric: float | None
    stopped: str  # "steps", "minutes", "patience" or "interrupted"
    seconds: float  # all of it, evaluations and what was spent before a resume included
    seconds_per_step: float  # of training alone


@dataclass
class Counters:
    """Where a run stands."""

    step: int = 0  # updates made
    best_metric: float | None = None
    best_step: int = 0
    stale: int = 0  # evaluations since the last improvement
    due: bool = False  # an evaluation was interrupted: it comes before the next step
    recorded: int = -1  # step of the last regular evaluation: a resume cuts the lines after it
    seconds: float = 0.0
    training_seconds: float = 0.0
    seconds_at_record: float = 0.0  # training seconds at the last regular evaluation


def claim(folder: Path, resume: bool) -> bool:
    """Whether there is something to resume; refuses a folder that would be overwritten or that lost its checkpoint."""
    saved = checkpoints.exists(folder / "last")
    records = folder / "metrics.jsonl"
    used = saved or checkpoints.exists(folder / "best") or (records.exists() and records.stat().st_size > 0)
    if used and not resume:
        raise SearnnError(f"{folder} already holds a run: resume it, or give another folder")
    if resume and not folder.is_dir():
        raise SearnnError(f"there is no run to resume in {folder}: no such folder; give the folder of a run")
    if used and not saved:
        raise SearnnError(f"{folder / 'last'} has no checkpoint to resume from: restore it from a copy, or train anew")
    return saved  # a run that was killed before its first save begins again: that is where it stood


@contextmanager
def held(folder: Path, wait: bool = False) -> Iterator[None]:
    """Keep other processes out of the folder, or `wait` for them; the system lets go when this one ends, however."""
    if find_spec("fcntl") is None:  # no such locks on this system
        yield
        return
    import fcntl

    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise SearnnError(f"cannot write {folder}: {advice(error)}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        told = "another process is training there: wait until it has ended, or give another folder"
        raise SearnnError(f"{folder} is in use, {told}") from None
    except OSError:  # a file system without locks
        pass
    try:
        yield
    finally:
        os.close(handle)


def check_same_data(world: World, digests: tuple[Any, ...]) -> None:
    """Refuse ranks that would train on different things; `digests` are those of the data and of the vocabulary."""
    if len(set(world.gather(digests))) > 1:
        raise AgreedError("the ranks have read different data or vocabularies: give all machines the same files")


def check_settings(settings: TrainingSettings, saved: Mapping[str, Any], folder: Path) -> None:
    """Refuse to resume with settings under which the steps already made would have been others.

    What a run of an earlier version does not name it had as it is by default.
    """
    saved = asdict(TrainingSettings()) | dict(saved)
    for name, value in asdict(settings).items():
        free = name in FREE_TO_CHANGE and not (name == "steps" and settings.schedule in SPANS_THE_RUN)
        if not free and saved.get(name) != value:
            why = f", which the {settings.schedule} learning rate runs over" if name == "steps" else ""
            change = f"{name} was {saved.get(name)!r} and is now {value!r}{why}"
            raise SearnnError(f"cannot resume {folder}: {change}; keep the run's own settings, or train anew")
