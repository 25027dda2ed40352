"""Files that a command is asked to write."""

from __future__ import annotations

import os
from pathlib import Path

from searnn.types import SearnnError


def check_place(flag: str, path: Path) -> None:
    """Refuse a file that could not be written, before any work is done for it."""
    folder = path.absolute().parent
    if not folder.is_dir() or (path.exists() and not path.is_file()):
        raise SearnnError(f"--{flag} {path}: it must be a file in a folder that is there")
    if not os.access(folder, os.W_OK | os.X_OK):  # it is written beside its place and moved there
        raise SearnnError(f"--{flag} {path} cannot be written: give a file in a folder you may write to")
