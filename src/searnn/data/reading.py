"""Reading whole files, and what went wrong, on one line."""

from __future__ import annotations

from pathlib import Path

from searnn.types import SearnnError


def read_file(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SearnnError(f"{path} cannot be read: {error.strerror or error}") from error


def one_line(reason: object) -> str:
    """What went wrong, on one line of bearable length."""
    return " ".join(str(reason).split())[:200] or type(reason).__name__
