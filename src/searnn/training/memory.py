"""Running out of memory: the many ways in which it shows, said in one line."""

from __future__ import annotations

import re

import torch

SHORTAGE = "not enough memory"  # how the line begins

# A CPU that is out of memory gives a plain RuntimeError, and a size beyond all memory one of several kinds.
MARKS = (
    "out of memory",
    "can't allocate memory",
    "DefaultCPUAllocator",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "Storage size calculation overflowed",
    "Overflow when unpacking",
    "without overflow",
)


def shortage(error: BaseException) -> str | None:
    """What to say of an error that is a lack of memory; None where it is another."""
    marked = isinstance(error, (RuntimeError, TypeError)) and any(mark in str(error) for mark in MARKS)
    if not (marked or isinstance(error, MemoryError)):
        return None
    size = re.search(r"allocate ([\d.]+ \w+)", str(error))
    where = " on the GPU" if isinstance(error, torch.OutOfMemoryError) else ""
    wanted = f" for {size[1]}" if size else ""
    return f"{SHORTAGE}{where}{wanted}: lower --batch-size, --k or --budget, or the model's --width"
