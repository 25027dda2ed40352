"""Whether a tensor of a checkpoint may stand in the place of another: nothing is cast, and NaN is damage."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from searnn.sealed import RESTORE
from searnn.types import SearnnError


def check_tensor(name: str, given: Tensor | None, wanted: Tensor | None, folder: Path, finite: bool = True) -> None:
    """Refuse a tensor of another shape or type than the one in whose place it is to stand, and one with NaN."""
    ours, theirs = ("missing" if each is None else str(list(each.shape)) for each in (wanted, given))
    if ours == theirs and given is not None and wanted is not None:
        ours, theirs = (str(each.dtype).removeprefix("torch.") for each in (wanted, given))
    if ours != theirs or given is None:
        sides = f"{name} is {theirs} there and {ours} in this model"
        raise SearnnError(f"the checkpoint {folder} is of another model: {sides}; use the settings it has")
    if given.is_floating_point() and not (given.isfinite() if finite else ~given.isnan()).all():
        raise SearnnError(f"the checkpoint {folder} is damaged: {name} has values that are not finite: {RESTORE}")
