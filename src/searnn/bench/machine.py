"""The machine that is timed: what it is, and how much memory a step takes on it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def describe(device: torch.device) -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "load": list(os.getloadavg()) if os.name == "posix" else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": version("triton") if find_spec("triton") else None,
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
