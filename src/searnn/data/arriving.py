"""Inputs as they come, from a file or from the standard input, in blocks: lines as a task reads them, or letters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from searnn.data.lines import LONGEST, open_content
from searnn.data.sheets import read_letters
from searnn.types import SearnnError

STDIN = "the standard input"
Numbered = tuple[int, Any]  # an input's number and its tokens or features; None where it was bad
Read = Callable[[str], Any]


def letters(path: Path | None, size: int) -> Iterator[list[Numbered]]:
    """Words of pixels; each has as many cells as letters."""
    if path is None and (sys.stdin is None or sys.stdin.isatty()):
        raise SearnnError("ocr reads pictures of letters: give an .npz or a .png file with --input, or by < FILE")
    words = list(enumerate(read_letters(sys.stdin.buffer, STDIN) if path is None else read_letters(path), 1))
    return (words[start : start + size] for start in range(0, len(words), size))


def lines(read: Read, path: Path | None, size: int, skip: bool) -> Iterator[list[Numbered]]:
    """Up to `size` lines at a time as the task reads them: as many as have come, so that a pipe need not end."""
    where = STDIN if path is None else str(path)
    if path is None and sys.stdin is None:
        raise SearnnError(f"{where} is closed: give a file of lines with --input, or by < FILE")
    number = 0
    with cast(BufferedIOBase, sys.stdin.buffer) if path is None else open_content(path) as stream:
        for found in _arrived(stream):
            for start in range(0, len(found), size):
                block: list[Numbered] = []
                try:
                    for line in found[start : start + size]:
                        number += 1
                        block.append((number, _source(read, line, f"{where}, line {number}", skip)))
                except SearnnError:
                    yield block  # what stands before a bad line is answered
                    raise
                yield block
    if not number and path is not None:  # a pipe may have nothing to say
        raise SearnnError(f"{where} is empty: expected a line for each output")


def _source(read: Read, line: bytes | None, where: str, skip: bool) -> Any:
    """The tokens of a line; None where it is bad and bad lines are left out."""
    try:
        if line is None:
            raise SearnnError(f"it has more than {LONGEST} bytes")
        text = line.decode("utf-8").removeprefix("\ufeff").rstrip("\r")
        if "\0" in text:
            raise SearnnError("it has a NUL")
        return read(text)
    except (SearnnError, UnicodeDecodeError) as error:
        if skip:
            return None
        reason = error if isinstance(error, SearnnError) else "it is not UTF-8"
        raise SearnnError(f"{where} is bad: {reason}; mend it, or leave it out with --skip-bad-lines") from error


def _arrived(stream: BufferedIOBase) -> Iterator[list[bytes | None]]:
    """The complete lines that have arrived since the last look, None for one too long to be held; the last line may
    lack its end.
    """
    rest: bytes | None = b""  # of a line whose end has not come; None where it is too long
    while piece := stream.read1(1 << 16):
        first, *others = piece.split(b"\n")
        rest = None if rest is None or len(rest) + len(first) > LONGEST else rest + first
        if others:
            yield [rest, *others[:-1]]
            rest = others[-1]
    if rest is None or rest:
        yield [rest]
