"""The machine that is timed: what it is, how fast it multiplies and copies, and how much memory a step takes."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

MATRIX = {"cpu": 1024, "cuda": 4096}  # large enough for the full rate, small enough to be taken every round
COPIED = {"cpu": 2**26, "cuda": 2**29}  # bytes, beyond every cache
IN_A_ROW = {"cpu": 1, "cuda": 5}  # steps timed together: a GPU is fed ahead, as in training
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def describe(device: torch.device) -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": _version("triton"),
        "threads": torch.get_num_threads(),
        "device": str(device),
    }
    if device.type == "cuda":
        known = torch.cuda.get_device_properties(device)
        found |= {"gpu": known.name, "gpu_memory": known.total_memory, "cuda": torch.version.cuda}
    return found


def _processor() -> str:
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def synchronise(device: torch.device) -> None:
    """Wait until the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def milliseconds(work: Callable[[], object], device: torch.device, count: int = 1) -> float:
    """How long the work takes, the mean of `count` times in a row."""
    synchronise(device)
    began = time.perf_counter()
    for _ in range(count):
        work()
    synchronise(device)
    return 1e3 * (time.perf_counter() - began) / count


@dataclass(frozen=True)
class Gauge:
    """A piece of work of known amount, by which the machine is measured: operations or bytes."""

    name: str
    amount: int
    work: Callable[[], object]


def gauges(device: torch.device, precision: str) -> list[Gauge]:
    """The product of square matrices in float32 and, where it is another, in the search's precision; and a copy."""
    side = MATRIX[device.type]
    kinds = [("float32", torch.float32)]
    if precision != "float32":
        kinds.append((precision, torch.bfloat16 if precision == "bf16" else torch.float32))
    found = []
    for name, kind in kinds:
        left, right = (torch.randn(side, side, device=device).to(kind) for _ in range(2))
        out = torch.empty_like(left)
        found.append(Gauge(name, 2 * side**3, _product(left, right, out, name == "tf32")))
    source = torch.zeros(COPIED[device.type] // 4, device=device)
    target = torch.zeros_like(source)
    found.append(Gauge("copy", 2 * COPIED[device.type], lambda: target.copy_(source)))
    return found


def _product(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, tf32: bool) -> Callable[[], object]:
    def work() -> None:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        torch.mm(left, right, out=out)
        torch.set_float32_matmul_precision(before)

    return work


def peak_bytes(work: Callable[[], object], device: torch.device) -> int | None:
    """How much more memory there was in use at the highest point of the work than before it.

    On a GPU what torch has allocated. On a CPU the resident memory of the process, after what is free in its heap was
    given back to the system: all of it counts, whoever asked for it. Only Linux tells; None elsewhere.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    if sys.platform != "linux":
        return None
    try:
        ctypes.CDLL(None).malloc_trim(0)
        CLEAR.write_text("5")  # the highest point so far is forgotten
        before = _resident("VmRSS")
        work()
        return max(0, _resident("VmHWM") - before)
    except (OSError, AttributeError, StopIteration):
        return None


def _resident(field: str) -> int:
    lines = STATUS.read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))
