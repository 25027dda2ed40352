"""Where training runs: the device, the precision, and how batches get there."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from searnn import engine, tree
from searnn.engine import Engine
from searnn.training.world import World
from searnn.types import Batch, SearnnError

ALONE = World()
log = logging.getLogger("searnn")


def find_device(name: str, world: World = ALONE) -> torch.device:
    """The device called `auto`, `cpu`, `cuda` or `cuda:N`; refused where the machine does not have it.

    Of several processes on a machine each has a GPU of its own, so that none can be named.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    kind, colon, number = name.partition(":")
    if name != "cpu" and (kind != "cuda" or (colon and not number.isdecimal())):
        raise SearnnError(f"the device is {name!r}, it must be auto, cpu, cuda or cuda:N")
    if kind == "cpu":
        return torch.device("cpu")
    if number and world.local_size > 1:
        told = f"the device is {name}, but {world.local_size} processes run on this machine"
        raise SearnnError(f"{told}, each on a GPU of its own: give auto or cuda")
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if world.local_size > max(found, 1):
        told = f"{world.local_size} processes were started on this machine, which has {found} CUDA devices"
        raise SearnnError(f"{told}: start no more than these, or give --device cpu")
    index = int(number or world.local_rank)
    if index >= found:
        raise SearnnError(f"the device is {name}, but this machine has {found} CUDA devices: use cpu or auto")
    return torch.device("cuda", index)


def check_precision(device: torch.device, precision: str) -> None:
    """Refuse arithmetic that the device cannot do."""
    if precision == "16-mixed" and device.type == "cpu":
        raise SearnnError("precision is 16-mixed, which the CPU cannot do: use 32-true or bf16-mixed there")


def make_fabric(device: torch.device, precision: str, world: World = ALONE, *, some_unused: bool = False) -> Any:
    """Lightning Fabric on one device: it applies the precision and, over several ranks, averages the gradients.

    `some_unused`: some parameters have no gradient; DDP must then look for them at every step.
    """
    try:  # imported here, since it takes longer than all else and prediction does without
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy
    except ImportError:
        from lightning.fabric import Fabric  # type: ignore[import-not-found,no-redef,unused-ignore]
        from lightning.fabric.strategies.ddp import DDPStrategy  # type: ignore[import-not-found,no-redef,unused-ignore]
    for package in ("lightning_fabric", "lightning.fabric"):  # whose hints are about settings that are not ours
        logging.getLogger(package).setLevel(logging.WARNING)
    if world.size == 1:
        places: Any = 1 if device.type == "cpu" else [device.index]
        return Fabric(accelerator=device.type, devices=places, precision=precision)  # type: ignore[arg-type]
    fabric = Fabric(
        accelerator=device.type,
        devices=world.local_size,
        num_nodes=world.size // world.local_size,
        strategy=DDPStrategy(find_unused_parameters=some_unused),
        precision=precision,  # type: ignore[arg-type]
    )
    fabric.launch()
    return fabric


def to_device(batch: Batch, device: torch.device, dtype: torch.dtype) -> Batch:
    """The batch where the model is, its fractional inputs in the model's type, without waiting for the copy."""

    def move(leaf: Tensor) -> Tensor:
        if device.type == "cuda" and leaf.device.type == "cpu":
            leaf = leaf.pin_memory()  # a copy from pageable memory would make the host wait
        return leaf.to(device, dtype if leaf.is_floating_point() else leaf.dtype, non_blocking=True)

    inputs, targets, lengths = tree.map_leaves(move, (batch.inputs, batch.targets, batch.lengths))
    return replace(batch, inputs=inputs, targets=targets, lengths=lengths, host_lengths=batch.limits())


def check_engine(ways: Engine, device: torch.device) -> None:
    """Refuse what cannot be done on the device; tell what makes no difference there."""
    on_gpu = engine.has_kernels(device)
    if ways.kind == "triton" and not on_gpu:
        told = f"the engine is triton, whose kernels need a GPU and Triton, and the device is {device}"
        raise SearnnError(f"{told}: take auto")
    if ways.precision == "float32":
        return
    if ways.kind == "plain":
        told = f"the search precision is {ways.precision}, which only fast paths have, and the engine is plain"
        raise SearnnError(f"{told}: leave one of them out")
    if not on_gpu:
        told = "it is for kernels on a GPU; leave --search-precision out"
        log.warning("warning: %s in the search changes nothing on %s: %s", ways.precision, device, told)


def visible_gpus() -> list[str]:
    """The GPUs that processes may be given, as CUDA_VISIBLE_DEVICES names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    return [str(number) for number in range(torch.cuda.device_count())]
