"""Files that are whole at every instant, and what a user is told where one cannot be written."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from searnn.types import SearnnError


def write(path: Path, data: bytes) -> None:
    """Replace the file, and make its folder where there is none; what goes wrong is told with what to do about it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise SearnnError(f"cannot write {path}: {advice(error)}") from None


def replace_file(path: Path, data: bytes) -> None:
    """Write the file so that at every instant either the old or the new one is there, whole, even after a crash."""
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)  # half a file would keep a full disk full
        raise
    if os.name == "posix":  # the new name must reach the disk before what relies on it; elsewhere folders do not open
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def advice(error: OSError) -> str:
    """What went wrong with a file and what to do about it."""
    text = (error.strerror or str(error)).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{text}; free some space there and try again"
    return f"{text}; choose a folder you may write to"
