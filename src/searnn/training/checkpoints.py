"""Checkpoints that are complete at every instant: tensors as safetensors, the rest as JSON; nothing is unpickled.

A checkpoint is a folder with `state.json` and one file of tensors, which `state.json` names together with its SHA-256.
Of `state.json` itself a checksum tells whether it is what was written; all that it says is checked when it is read.
A save writes the new tensors under a new name and then replaces `state.json` in one operation of the file system.
Before it the old checkpoint stands and after it the new one, wherever the process is killed; what such a save leaves
behind is cleared away by the next.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import safetensors.torch
from pydantic import ConfigDict, Field
from safetensors import SafetensorError
from torch import Tensor, nn

from searnn import sealed
from searnn.files import advice, make_folder, remove, replace_file, sync_folder
from searnn.sealed import RESTORE, Checked, Whole
from searnn.training.fitting import check_tensor
from searnn.training.saved import Meta
from searnn.types import SearnnError

STATE = "state.json"
AVERAGE = "average."  # begins the names of the weights' averages, in a checkpoint that has them beside the weights
KEPT = "kept"  # the folder in a run's of the models kept on the way, each under its step
FORMAT = 1


class Format(Checked):
    """The part of `state.json` that tells how the rest is to be read."""

    model_config = ConfigDict(extra="allow")
    format: int


class State(Checked):
    """What `state.json` holds."""

    format: int
    tensors: Annotated[str, Field(pattern=r"^tensors-[0-9a-f]{12}\.safetensors$")]  # no other file is ever opened
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: Whole | None = None  # bytes of the tensors' file, which checkpoints of earlier versions do not tell
    state: Meta


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
    state = {"format": FORMAT, "tensors": name, "sha256": digest, "size": len(data), "state": dict(meta)}
    try:
        if folder.is_dir() and not exists(folder):
            sync_folder(folder.parent)  # a process was killed that made the folder, before its name was safe perhaps
        make_folder(folder)
        _clear(folder, killed=True)
        replace_file(folder / name, data)
        replace_file(folder / STATE, sealed.text_of(state, indent=1).encode())
        _clear(folder)
    except OSError as error:
        with suppress(OSError):
            _clear(folder)  # half a file would keep a full disk full
        kept = "; the checkpoint that was there is unharmed" if exists(folder) else ""
        raise SearnnError(f"cannot save the checkpoint {folder}: {advice(error)}{kept}") from None


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the rest of the checkpoint in `folder`, checked against its checksums."""
    for _ in range(10):
        text = _read(folder / STATE, folder)
        state = _parsed(text, folder)
        path = folder / state.tensors
        try:
            data = _read(path, folder, sys.maxsize if state.size is None else state.size)
            break
        except SearnnError:
            if _read(folder / STATE, folder) == text:
                raise
            # Another process saved in between: what we read of is gone, the new one is there.
    else:
        raise SearnnError(f"the checkpoint {folder} changes faster than it can be read: try again")
    damaged = f"{path} is truncated or damaged: {RESTORE}"
    if hashlib.sha256(data).hexdigest() != state.sha256:
        raise SearnnError(damaged)
    try:
        return safetensors.torch.load(data), _dumped(state)
    except (SafetensorError, ValueError, KeyError):  # the last is a type that this torch has not
        raise SearnnError(damaged) from None


def read_meta(folder: Path) -> dict[str, Any]:
    """What the checkpoint says besides its tensors, which are not read."""
    return _dumped(_parsed(_read(folder / STATE, folder), folder))


def restore(module: nn.Module, tensors: Mapping[str, Tensor], folder: Path, prefix: str = "") -> None:
    """Put the tensors whose names start with `prefix` into the module; refuse those of another model by name."""
    given = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    wanted = module.state_dict()
    learned = {name for name, _ in module.named_parameters(remove_duplicate=False)}  # a mask may be infinite
    for name in (*wanted, *given):
        check_tensor(prefix + name, given.get(name), wanted.get(name), folder, finite=name in learned)
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


def step_of(meta: Mapping[str, Any]) -> int:
    """The update of which a checkpoint's model is, by what it says: the last, the best or one that was kept."""
    return int((meta.get("counters") or meta.get("record") or meta).get("step", 0))


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
            kept.add(_parsed(_read(folder / STATE, folder), folder).tensors)
        except SearnnError:
            return  # damaged: nothing is thrown away that might still be of use
    found = [path for pattern in ("tensors-*.safetensors", "*.new") for path in folder.glob(pattern)]
    left = sorted(path for path in found if path.name not in kept)
    if left and killed:
        sync_folder(folder)  # what was read may have a name that is not safe yet
    for path in left:
        remove(path)


def _parsed(text: bytes, folder: Path) -> State:
    """What `state.json` says."""
    path = str(folder / STATE)
    version = sealed.parse(text, Format, path).format
    if version != FORMAT:
        found = f"the checkpoint {folder} has format {version}, expected {FORMAT}"
        raise SearnnError(f"{found}: use the version of searnn that made it")
    return sealed.parse(text, State, path)


def _dumped(state: State) -> dict[str, Any]:
    return state.state.model_dump(exclude_unset=True)


def _read(path: Path, folder: Path, most: int = sealed.LARGEST) -> bytes:
    try:
        return sealed.read_bytes(path, most)
    except (FileNotFoundError, NotADirectoryError):
        missing = f"{path.name} is missing" if folder.is_dir() else "no such folder"
        raise SearnnError(f"no checkpoint in {folder}: {missing}; give the folder of a run that has one") from None
    except OSError as error:
        raise SearnnError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
