"""What there is to accelerate with: Triton on a GPU, Numba on a CPU; neither is loaded before it is asked for."""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from searnn import engine


def has_kernels(device: torch.device) -> bool:
    """Whether Triton's kernels can run on this device: on a GPU; on a CPU through its interpreter, if there is one."""
    return has_triton() and (device.type == "cuda" or interpreted())


def triton_applies(tensor: Tensor) -> bool:
    """Whether kernels may run on this tensor: on a GPU with Triton; on a CPU through its interpreter, if asked for."""
    kind = engine.current().kind
    if kind == "plain" or not has_triton():
        return False
    return tensor.is_cuda or (kind == "triton" and interpreted())


def interpreted() -> bool:
    """Whether Triton's kernels are run by its interpreter, on any device: slow, for tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of fast memory that one program of a kernel may use; on a CPU the interpreter knows no bound."""
    if device.type != "cuda":
        return sys.maxsize
    properties: Any = torch.cuda.get_device_properties(device)
    try:
        return int(properties.shared_memory_per_block_optin)
    except AttributeError:  # torch does not say on every platform
        return 99 * 1024


@cache
def has_triton() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def cpu_applies(tensor: Tensor) -> bool:
    """Whether compiled passes may run on this tensor: on a CPU with Numba, unless the engine is told otherwise."""
    return tensor.device.type == "cpu" and engine.current().kind == "auto" and has_numba()


@cache
def has_numba() -> bool:
    """Whether Numba is installed and works here; its first use on a machine compiles, which takes seconds."""
    try:
        from numba import config

        if vars(config).get("DISABLE_JIT"):
            raise ImportError("NUMBA_DISABLE_JIT is set")
        from searnn.fast.cpu import rows  # noqa: F401
    except Exception as error:  # whatever keeps it from compiling must not keep anyone from training
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        engine.announce(f"the plain code on the CPU, for want of Numba ({reason}): pip install 'searnn[cpu]'")
        return False
    return True
