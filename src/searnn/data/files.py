"""Whole files: read with an error in one line, and written so that none is ever half there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from searnn.types import SearnnError


def read_file(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SearnnError(f"{path} cannot be read: {error.strerror or error}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Write a file beside its place and rename it there: at every instant the old or the new one is there, whole.

    It is on the disk before it has its name, so that a crash leaves either, too.
    """
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".writing-") as folder:
        made = Path(folder, path.name)
        with made.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        made.replace(path)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def one_line(reason: object) -> str:
    """What went wrong, on one line of bearable length."""
    return " ".join(str(reason).split())[:200] or type(reason).__name__
