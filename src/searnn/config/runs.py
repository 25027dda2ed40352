"""Runs: folders with the settings, the records and the checkpoints of one training; and loading what was trained."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from searnn.config import files
from searnn.config.building import make_model, make_task
from searnn.config.resolving import resolve
from searnn.config.schema import Config
from searnn.interfaces import Task
from searnn.training import find_device, load_model
from searnn.types import SearnnError

SETTINGS = "config.toml"
TEXT = "text"  # what a task on text has learned of its data


@dataclass(frozen=True)
class Run:
    """A trained model with the task it was trained on, ready to be used."""

    config: Config
    task: Task
    model: nn.Module
    folder: Path


def load(run: str | Path, which: str = "best", device: str = "cpu") -> Run:
    """The model of a run's folder: the best by the validation metric, or the last."""
    if which not in ("best", "last"):
        raise SearnnError(f"which is {which!r}, it must be best or last")
    folder = Path(run)
    place = find_device(device)
    config = settings_of(folder)
    if not (folder / which).is_dir():
        how = "train it further with --resume" if (folder / "last").is_dir() else "train anew in another folder"
        raise SearnnError(f"{folder} has no checkpoint {which!r}: {how}")
    task = make_task(config, text=folder / TEXT)
    model = make_model(config, task)
    model.to(torch.float64 if config.run.precision == "64-true" else torch.float32)
    known = load_model(folder / which, model).get("identity")
    if known != getattr(task, "identity", None):
        told = "is not the vocabulary that the model was trained with"
        raise SearnnError(f"{folder / TEXT} {told}: restore it from a copy, or train anew")
    return Run(config, task, model.to(place).eval(), folder)


def settings_of(folder: Path) -> Config:
    """The settings that a run was made with."""
    if not folder.is_dir():
        raise SearnnError(f"there is no run folder {folder}")
    path = folder / SETTINGS
    if not path.is_file():
        raise SearnnError(f"{folder} is not the folder of a run: it has no {SETTINGS}")
    return resolve(files.read(path), say=lambda name: f"{path}: {files.key(name)}")
