"""Inputs as they come, from a file or from the standard input, in windows: lines as a task reads them, or letters."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from searnn.data.lines import LONGEST, open_content
from searnn.data.sheets import read_letters
from searnn.types import SearnnError

STDIN = "the standard input"
Numbered = tuple[int, Any]  # an input's number and its tokens or features; None where it was bad
Read = Callable[[str], Any]


class Pause(Enum):
    """No line: the input has no more for now."""

    PAUSE = "pause"


PAUSE = Pause.PAUSE
FIRST, GROWTH, MOST = 16, 4, 4096  # lines of the first window, times as many in each further one, up to
HELD = 4 * 2**20  # bytes of lines after which a window is full, however few they are
READ = 1 << 16  # bytes read at once


def letters(path: Path | None) -> Iterator[list[Numbered]]:
    """Words of pixels; each has as many cells as letters."""
    if path is None and (sys.stdin is None or sys.stdin.isatty()):
        raise SearnnError("ocr reads pictures of letters: give an .npz or a .png file with --input, or by < FILE")
    words = list(enumerate(read_letters(sys.stdin.buffer, STDIN) if path is None else read_letters(path), 1))
    return (words[start : start + MOST] for start in range(0, len(words), MOST))


def lines(read: Read, path: Path | None, skip: bool) -> Iterator[list[Numbered]]:
    """Windows of lines as the task reads them. No more is read ahead, however long the input is.

    A window ends when the input pauses, so that a program may wait for the answer to a line. While the input streams,
    each window has more lines than the one before: the first is answered soon, the later ones fill large batches.
    """
    where = STDIN if path is None else str(path)
    if path is None and sys.stdin is None:
        raise SearnnError(f"{where} is closed: give a file of lines with --input, or by < FILE")
    number = 0
    with cast(BufferedIOBase, sys.stdin.buffer) if path is None else open_content(path) as stream:
        window: list[Numbered] = []
        most, held = FIRST, 0
        try:
            for line in _arrived(stream):
                if line is not PAUSE:
                    number += 1
                    held += len(line or b"")
                    window.append((number, _source(read, line, f"{where}, line {number}", skip)))
                if window and (line is PAUSE or len(window) >= most or held >= HELD):
                    yield window
                    most = FIRST if line is PAUSE else min(GROWTH * most, MOST)
                    window, held = [], 0
        except SearnnError:
            yield window  # what stands before a bad line is answered
            raise
        yield window
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


def _arrived(stream: BufferedIOBase) -> Iterator[bytes | Pause | None]:
    """The lines, None for one too long to be held, and `PAUSE` where one would have to wait for more; the last line may
    lack its end.
    """
    rest: bytes | None = b""  # of a line whose end has not come; None where it is too long
    while piece := stream.read1(READ):
        first, *others = piece.split(b"\n")
        rest = None if rest is None or len(rest) + len(first) > LONGEST else rest + first
        if others:
            yield rest
            yield from others[:-1]
            rest = others[-1]
        if not _has_more(stream):
            yield PAUSE
    if rest is None or rest:
        yield rest


def _has_more(stream: BufferedIOBase) -> bool:
    """Whether reading on would not wait; where that cannot be known, it might."""
    try:
        return bool(select.select([stream], [], [], 0)[0])
    except (OSError, ValueError):  # no file of the system, or not one that this system can ask about
        return False
