"""What the loops must know of the device they run on: whether reading a value stops it, and how much memory is free."""

from __future__ import annotations

import os

import torch

CACHE_BYTES = 10 * 2**20  # on a CPU, blocks of rows that stay in its cache are fastest


def reads_are_free(device: torch.device) -> bool:
    """True where a tensor's values can be looked at without waiting for the device."""
    return device.type == "cpu"


def default_budget(device: torch.device) -> int:
    """Bytes that rows advancing together may take: half of what is free, and on a CPU no more than its cache holds."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] // 2
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(free // 2, CACHE_BYTES)
