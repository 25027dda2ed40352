"""What changes the disk: files that are whole at every instant, and safe on the disk in the order that others rely on.

All that must not be lost is written by these functions. As in SQLite, content reaches the disk before the name that
stands for it, and the name before anything that relies on it is written or removed. Each change is announced by
`about_to`, where tests kill the process or pull the plug.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

from searnn.types import SearnnError

NEW = ".new"  # ends the name of what is not whole yet
TRIES = 100  # to make a folder while others remove the one above it
NO_SYNC = (errno.EINVAL, errno.ENOTSUP)  # of folders, on some network file systems


def about_to(change: str, path: Path, more: bytes | Path | None = None) -> None:
    """Called before each change: "write", "append", "sync", "rename", "remove", "make folder", "remove folder".

    `more` is the data, or the new name. It does nothing; tests put something in its place.
    """


def write(path: Path, data: bytes) -> None:
    """Replace the file, and make its folder where there is none; what goes wrong is told with what to do about it."""
    try:
        make_folder(path.parent)
        replace_file(path, data)
    except OSError as error:
        raise SearnnError(f"cannot write {path}: {advice(error)}") from None


def replace_file(path: Path, data: bytes) -> None:
    """Write the file so that at every instant either the old or the new one is there, whole, even after a crash."""
    new = path.with_name(path.name + NEW)
    try:
        _write("write", new, data, "wb")
        rename(new, path)
    except OSError:
        with suppress(OSError):
            remove(new)  # half a file would keep a full disk full
        raise


def append(path: Path, data: bytes) -> None:
    """Add to the end of the file. Once this returns it is safe; a crash before may leave a part of it, or zeros."""
    is_new = not path.exists()
    _write("append", path, data, "ab")
    if is_new:
        sync_folder(path.parent)


def rename(path: Path, to: Path) -> None:
    """Give a file or folder, whose content is safe, the name by which others find it."""
    about_to("rename", path, to)
    os.replace(path, to)
    sync_folder(to.parent)


def make_folder(folder: Path) -> None:
    """Make the folder, and those above it where they are not."""
    for _ in range(TRIES):
        if folder.is_dir():
            return
        if not folder.parent.exists():
            make_folder(folder.parent)
        try:
            make_new_folder(folder)
        except (FileExistsError, FileNotFoundError) as error:  # another process made it, or removed the one above
            failure = error
    raise failure


def make_new_folder(folder: Path) -> None:
    """Make a folder; fails where there is one."""
    about_to("make folder", folder)
    folder.mkdir()
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder reach the disk."""
    if os.name != "posix":  # folders do not open elsewhere
        return
    handle = os.open(folder, os.O_RDONLY)
    about_to("sync", folder)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        os.close(handle)


def remove(path: Path) -> None:
    """Remove a file, where it is there."""
    about_to("remove", path)
    path.unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Remove a folder, where it is there, with all that is in it."""
    if folder.is_dir():
        empty_folder(folder)
        drop_folder(folder)


def drop_folder(folder: Path) -> None:
    """Remove a folder that is empty; another fails."""
    about_to("remove folder", folder)
    folder.rmdir()


def empty_folder(folder: Path, but: str | None = None) -> None:
    """Remove all that is in a folder, `but` what has this name."""
    for path in sorted(folder.iterdir()):
        if path.name == but:
            continue
        if path.is_dir() and not path.is_symlink():
            remove_folder(path)
        else:
            remove(path)


def advice(error: OSError) -> str:
    """What went wrong with a file and what to do about it."""
    text = (error.strerror or str(error)).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{text}; free some space there and try again"
    return f"{text}; choose a folder you may write to"


def _write(change: str, path: Path, data: bytes, mode: str) -> None:
    """Write data to a file, and have it reach the disk."""
    about_to(change, path, data)
    with path.open(mode) as file:
        file.write(data)
        file.flush()
        about_to("sync", path)
        os.fsync(file.fileno())
