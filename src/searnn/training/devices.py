"""Where training runs: the device, the precision, and how batches get there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from searnn import tree
from searnn.types import Batch, SearnnError


def find_device(name: str) -> torch.device:
    """The device called `auto`, `cpu`, `cuda` or `cuda:N`; refused where the machine does not have it."""
    if name == "auto":
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    kind, colon, number = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (colon and not number.isdecimal())):
        raise SearnnError(f"the device is {name!r}, it must be auto, cpu, cuda or cuda:N")
    if kind == "cpu":
        return torch.device("cpu")
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if int(number or 0) >= found:
        raise SearnnError(f"the device is {name}, but this machine has {found} CUDA devices: use cpu or auto")
    return torch.device("cuda", int(number or 0))


def make_fabric(device: torch.device, precision: str) -> Any:
    """Lightning Fabric on one device: it applies the precision and, in time, spreads training over several."""
    if precision == "16-mixed" and device.type == "cpu":
        raise SearnnError("precision is 16-mixed, which the CPU cannot do: use 32-true or bf16-mixed there")
    try:  # imported here, since it takes longer than all else and prediction does without
        from lightning_fabric import Fabric
    except ImportError:
        from lightning.fabric import Fabric  # type: ignore[import-not-found,no-redef,unused-ignore]
    places: Any = 1 if device.type == "cpu" else [device.index]
    return Fabric(accelerator=device.type, devices=places, precision=precision)  # type: ignore[arg-type]


def to_device(batch: Batch, device: torch.device, dtype: torch.dtype) -> Batch:
    """The batch where the model is, its fractional inputs in the model's type, without waiting for the copy."""

    def move(leaf: Tensor) -> Tensor:
        if device.type == "cuda" and leaf.device.type == "cpu":
            leaf = leaf.pin_memory()  # a copy from pageable memory would make the host wait
        return leaf.to(device, dtype if leaf.is_floating_point() else leaf.dtype, non_blocking=True)

    inputs, targets, lengths = tree.map_leaves(move, (batch.inputs, batch.targets, batch.lengths))
    return replace(batch, inputs=inputs, targets=targets, lengths=lengths, host_lengths=batch.limits())
