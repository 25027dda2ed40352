"""Reading whole files, and what went wrong, on one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from searnn.types import SearnnError


def read_file(path: Path, most: int | None = None) -> bytes:
    """What a file holds, which may be no more than `most` bytes."""
    try:
        with path.open("rb") as stream:
            return read_most(stream.read, str(path), most)
    except OSError as error:
        raise SearnnError(f"{path} cannot be read: {error.strerror or error}") from error


def read_most(read: Callable[[int], bytes], where: str, most: int | None = None) -> bytes:
    """What a stream's `read` gives, which may be no more than `most` bytes; `where` names the stream in messages."""
    content = read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise SearnnError(f"{where} is larger than {most:,} bytes: cut it into several files")
    return content


def one_line(reason: object) -> str:
    """What went wrong, on one line of bearable length."""
    return " ".join(str(reason).split())[:200] or type(reason).__name__
