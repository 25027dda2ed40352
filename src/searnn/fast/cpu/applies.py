"""Whether compiled passes may take over on a CPU; nothing here loads Numba before it is asked."""

from __future__ import annotations

from functools import cache

from torch import Tensor

from searnn import engine


def cpu_applies(tensor: Tensor) -> bool:
    """Whether compiled passes may run on this tensor: on a CPU with Numba, unless the engine is told otherwise."""
    return tensor.device.type == "cpu" and engine.current().kind == "auto" and has_numba()


@cache
def has_numba() -> bool:
    """Whether Numba is installed and works here; its first use on a machine compiles, which takes seconds."""
    try:
        from numba import config

        if getattr(config, "DISABLE_JIT", False):
            raise ImportError("NUMBA_DISABLE_JIT is set")
        from searnn.fast.cpu import rows as cpu_rows  # noqa: F401
    except Exception as error:  # whatever keeps it from compiling must not keep anyone from training
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        engine.announce(f"the plain code on the CPU, for want of Numba ({reason}): pip install 'searnn[cpu]'")
        return False
    return True
