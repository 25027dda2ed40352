"""Checkpoints that are complete at every instant: tensors as safetensors, the rest as JSON; nothing is unpickled.

A checkpoint is a folder with `state.json` and one file of tensors, which `state.json` names together with its SHA-256.
A save writes the new tensors under a new name and then replaces `state.json` in one operation of the file system.
Before it the old checkpoint stands and after it the new one, wherever the process is killed; what such a save leaves
behind is cleared away by the next.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor, nn

from searnn.files import advice, make_folder, remove, replace_file, sync_folder
from searnn.types import SearnnError

STATE = "state.json"
AVERAGE = "average."  # begins the names of the weights' averages, in a checkpoint that has them beside the weights
KEPT = "kept"  # the folder in a run's of the models kept on the way, each under its step
FORMAT = 1


def exists(folder: Path) -> bool:
    """Whether a checkpoint was ever saved there."""
    return (folder / STATE).is_file()


def save(folder: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Replace the checkpoint in `folder`; where that fails the one before stays as it is."""
    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    data = safetensors.torch.save(copies)
    digest = hashlib.sha256(data).hexdigest()
    name = f"tensors-{digest[:12]}.safetensors"
    state = {"format": FORMAT, "tensors": name, "sha256": digest, "state": dict(meta)}
    try:
        if folder.is_dir() and not exists(folder):
            sync_folder(folder.parent)  # a process was killed that made the folder, before its name was safe perhaps
        make_folder(folder)
        _clear(folder, killed=True)
        replace_file(folder / name, data)
        replace_file(folder / STATE, json.dumps(state, indent=1, allow_nan=False).encode())
        _clear(folder)
    except OSError as error:
        with suppress(OSError):
            _clear(folder)  # half a file would keep a full disk full
        kept = "; the checkpoint that was there is unharmed" if exists(folder) else ""
        raise SearnnError(f"cannot save the checkpoint {folder}: {advice(error)}{kept}") from None


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the rest of the checkpoint in `folder`, checked against its SHA-256."""
    for _ in range(10):
        text = _read(folder / STATE, folder)
        try:
            state = json.loads(text)
            name, digest, meta, version = state["tensors"], state["sha256"], state["state"], state["format"]
        except (ValueError, KeyError, TypeError):
            raise SearnnError(f"{folder / STATE} is damaged: restore it from a copy, or train anew") from None
        if version != FORMAT:
            found = f"the checkpoint {folder} has format {version}, expected {FORMAT}"
            raise SearnnError(f"{found}: use the version of searnn that made it")
        try:
            data = _read(folder / name, folder)
            break
        except SearnnError:
            if _read(folder / STATE, folder) == text:
                raise
            # Another process saved in between: what we read of is gone, the new one is there.
    else:
        raise SearnnError(f"the checkpoint {folder} changes faster than it can be read: try again")
    damaged = f"{folder / name} is truncated or damaged: restore it from a copy, or train anew"
    if hashlib.sha256(data).hexdigest() != digest:
        raise SearnnError(damaged)
    try:
        return safetensors.torch.load(data), meta
    except (SafetensorError, ValueError):
        raise SearnnError(damaged) from None


def restore(module: nn.Module, tensors: Mapping[str, Tensor], folder: Path, prefix: str = "") -> None:
    """Put the tensors whose names start with `prefix` into the module; refuse those of another model by name."""
    given = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    wanted = module.state_dict()
    for name in (*wanted, *given):
        ours = list(wanted[name].shape) if name in wanted else "missing"
        theirs = list(given[name].shape) if name in given else "missing"
        if ours != theirs:
            sides = f"{prefix}{name} is {theirs} there and {ours} in this model"
            raise SearnnError(f"the checkpoint {folder} is of another model: {sides}; use the settings it has")
    module.load_state_dict(given)


def load_model(folder: Path, model: nn.Module) -> dict[str, Any]:
    """Fill the model with the weights of the checkpoint in `folder`; returns what else the checkpoint says.

    Where weights are averaged, the average is the model, also in the checkpoint that a run is resumed from.
    """
    tensors, meta = load(folder)
    averaged = [name for name in tensors if name.startswith(AVERAGE)]
    means = {f"model.{name.removeprefix(AVERAGE)}": tensors[name] for name in averaged}
    restore(model, tensors | means, folder, "model.")
    return meta


def keep(run: Path, step: int, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Save the model of a step where nothing will replace it."""
    save(run / KEPT / str(step), tensors, {"step": step, **meta})


def kept(run: Path) -> dict[int, Path]:
    """The models that a run kept on its way, by their steps, ascending."""
    found = {int(path.name): path for path in (run / KEPT).glob("*") if path.name.isdecimal() and exists(path)}
    return dict(sorted(found.items()))


def _clear(folder: Path, killed: bool = False) -> None:
    """Remove what does not belong to the checkpoint: the tensors of the one before, or what a `killed` save left."""
    kept = {STATE}
    if exists(folder):
        try:
            kept.add(json.loads((folder / STATE).read_bytes())["tensors"])
        except (ValueError, KeyError, TypeError):
            return  # damaged: nothing is thrown away that might still be of use
    found = [path for pattern in ("tensors-*.safetensors", "*.new") for path in folder.glob(pattern)]
    left = sorted(path for path in found if path.name not in kept)
    if left and killed:
        sync_folder(folder)  # what was read may have a name that is not safe yet
    for path in left:
        remove(path)


def _read(path: Path, folder: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        missing = f"{path.name} is missing" if folder.is_dir() else "no such folder"
        raise SearnnError(f"no checkpoint in {folder}: {missing}; give the folder of a run that has one") from None
    except OSError as error:
        raise SearnnError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
