"""Whole files: read with an error in one line, and written so that none is ever half there."""

from __future__ import annotations

import os
from pathlib import Path

from searnn.types import SearnnError


def read_file(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SearnnError(f"{path} cannot be read: {error.strerror or error}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Write the file so that at every instant either the old or the new one is there, whole, even after a crash."""
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    if os.name == "posix":  # the new name must reach the disk before what relies on it; elsewhere no folder is opened
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def one_line(reason: object) -> str:
    """What went wrong, on one line of bearable length."""
    return " ".join(str(reason).split())[:200] or type(reason).__name__
