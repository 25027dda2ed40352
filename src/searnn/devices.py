"""What the loops must know of the device they run on: whether reading a value stops it, and how much memory is free."""

from __future__ import annotations

import ctypes
import os

import torch

MOST_THREADS = 1024  # of a CPU: far more end the process, or never come
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of the GNU C library
CACHE_BYTES = 12 * 2**20  # on a CPU, blocks of rows that stay in its cache are fastest
DECODING_BYTES = 64 * 2**20  # likewise where every row has another input: too few rows read the weights too often


def reads_are_free(device: torch.device) -> bool:
    """True where a tensor's values can be looked at without waiting for the device."""
    return device.type == "cpu"


def default_budget(device: torch.device, most: int = CACHE_BYTES) -> int:
    """Bytes that rows advancing together may take: half of what is free, and on a CPU no more than its cache holds,
    or than `most`.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // 2
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system says
        return most
    return min(free // 2, most)


def keep_memory() -> bool:
    """Ask the C library to keep freed memory for the next step instead of giving it back to the system.

    On Linux the search frees and asks again for megabytes at every step; touching fresh pages took a quarter of a
    step's time. Returns whether the C library could be asked.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    most = 2**31 - 1
    return all(mallopt(option, value) == 1 for option, value in ((M_TRIM_THRESHOLD, most), (M_MMAP_THRESHOLD, 2**30)))
