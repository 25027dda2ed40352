"""Runs: folders with the settings, the records and the checkpoints of one training; and loading what was trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from searnn.config import files, registry
from searnn.config.building import make_model, make_task
from searnn.config.resolving import resolve
from searnn.config.schema import Config
from searnn.interfaces import Task
from searnn.training import checkpoints, find_device, load_model
from searnn.training.state import FREE_TO_CHANGE, SPANS_THE_RUN
from searnn.types import SearnnError

SETTINGS = files.SETTINGS
TEXT = "text"  # what a task on text has learned of its data
MAY_CHANGE = (*FREE_TO_CHANGE, "threads")  # when a run is resumed


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


def is_fixed(name: str, before: Mapping[str, Any]) -> bool:
    """Whether a setting must stay as it was when a run with these settings goes on."""
    return name not in MAY_CHANGE or (name == "steps" and before["schedule"] in SPANS_THE_RUN)


def begin_from(run: str | Path, config: Config, task: Task, model: nn.Module) -> None:
    """Fill the model with the weights of a run's best; refused where its model or its vocabulary is another."""
    folder = Path(run)
    known = settings_of(folder)
    if not (folder / "best").is_dir():
        raise SearnnError(f"--init-from {folder}: it has no best model yet; train it first")
    ours, theirs = ({**one.model.model_dump(), "dropout": None} for one in (config, known))
    for name, value in theirs.items():
        if value != ours[name]:
            told = f"{registry.flag(name)} is {value} there and {ours[name]} here"
            raise SearnnError(f"--init-from {folder}: {told}; give the same settings of the model")
    identity = getattr(task, "identity", None)
    tensors, meta = checkpoints.load(folder / "best")
    another = identity is None and known.task.name != config.task.name  # without a vocabulary learned from data
    if another or meta.get("identity") != identity:
        told = f"its vocabulary, of the task {known.task.name}, is not that of this training"
        raise SearnnError(f"--init-from {folder}: {told}; begin from a run on the same data")
    checkpoints.restore(model, tensors, folder / "best", "model.")


def settings_of(folder: Path) -> Config:
    """The settings that a run was made with."""
    if not folder.is_dir():
        raise SearnnError(f"there is no run folder {folder}")
    path = folder / SETTINGS
    if not path.is_file():
        raise SearnnError(f"{folder} is not the folder of a run: it has no {SETTINGS}")
    return resolve(files.read(path), say=lambda name: f"{path}: {files.key(name)}")
