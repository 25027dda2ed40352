"""Many small runs on one GPU: processes that share it through CUDA's multi-process service, where it is there.

Runs that share a GPU are processes side by side, because a run then is what it is alone: same code, same bits, and what
fails fails alone. Small models leave most of a GPU idle; the service lets the kernels of several processes run at the
same time, where otherwise they take turns.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

CONTROL = "nvidia-cuda-mps-control"
FOLDERS = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


@contextmanager
def shared_gpu(processes: int) -> Iterator[Mapping[str, str]]:
    """What processes that run meanwhile need in their environment to share a GPU well; nothing where that cannot be."""
    already = any(name in os.environ for name in FOLDERS)  # someone else's service serves them too
    if processes < 2 or already or not torch.cuda.is_available() or shutil.which(CONTROL) is None:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="searnn-mps-", ignore_cleanup_errors=True) as folder:
        own = dict.fromkeys(FOLDERS, folder)
        environment = {**os.environ, **own}
        started = subprocess.run([CONTROL, "-d"], env=environment, capture_output=True, check=False)
        if started.returncode != 0:  # not allowed here: they take turns
            yield {}
            return
        try:
            yield own
        finally:
            subprocess.run([CONTROL], input=b"quit\n", env=environment, capture_output=True, check=False)
