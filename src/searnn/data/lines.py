"""Reading lines and pairs of lines from files: plain or packed, streamed, with what is bad counted and named."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import cast

from searnn.data.units import FEATURES
from searnn.types import SearnnError

LONGEST = 1 << 20  # bytes of a line; a longer one is never held whole
NAMED = 5  # line numbers that a message gives for each reason
BOM = b"\xef\xbb\xbf"

Line = tuple[int, str | None, str]


class BadLines:
    """Bad lines by file and reason, with the first few line numbers; a count of one pass over the files."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.count = 0
        self._found: dict[Path, dict[str, tuple[int, tuple[int, ...]]]] = {}

    def note(self, path: Path, number: int, reason: str) -> None:
        """Count a bad line."""
        self.count += 1
        reasons = self._found.setdefault(path, {})
        times, first = reasons.get(reason, (0, ()))
        reasons[reason] = (times + 1, (*first, number) if times < NAMED else first)

    def close(self, used: int) -> None:
        """Refuse bad lines unless they may be left out and leave something; `used` is the number of good ones."""
        if not self.count:
            return
        if not self.skip:
            them, leave = ("it", "leave it out") if self.count == 1 else ("them", "leave them out")
            raise SearnnError(f"{self._told('has')}: mend {them}, or {leave} with --skip-bad-lines")
        if not used:
            raise SearnnError(f"no good line is left: {self._told('has')}: give files of pairs of lines")

    def summary(self) -> str | None:
        """What was left out, in one line."""
        return f"left out: {self._told('had')}" if self.skip and self.count else None

    def _told(self, has: str) -> str:
        """Every file with its bad lines."""
        files = []
        for path, reasons in self._found.items():
            total = sum(times for times, _ in reasons.values())
            ranked = sorted(reasons.items(), key=lambda entry: -entry[1][0])
            told = ", ".join(f"{times} {reason} ({_numbers(times, first)})" for reason, (times, first) in ranked)
            files.append(f"{path} {has} {total} bad line{'s' * (total > 1)}: {told}")
        return "; ".join(files)


def read_lines(path: Path) -> Iterator[Line]:
    """Each line of a file as its number from 1, its text or None if it is bad, and why it is bad.

    The file may be plain, gzip or xz, which its first bytes tell. A line ends by LF or CR LF.
    """
    try:
        with open_content(path) as content:
            yield from _split(content)
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise SearnnError(f"{path} is damaged or cut short ({error}): get it again") from error
    except OSError as error:
        raise SearnnError(f"{path} cannot be read: {error.strerror or error}") from error


def good_lines(path: Path, bad: BadLines) -> Iterator[tuple[int, str]]:
    """The number and text of each good line; `bad` is told of the others."""
    for number, text, reason in read_lines(path):
        if text is None:
            bad.note(path, number, reason)
        else:
            yield number, text


def read_pairs(paths: Sequence[Path], bad: BadLines, features: int | None = None) -> Iterator[tuple[int, str, str]]:
    """Each good line's number, source and target, without the whitespace around them; `bad` is told of the others.

    There is one file with a tab between source and target, or one of sources and one of targets. Two passes over the
    files need a `BadLines` each, else every bad line is counted twice. Where column `features` of three, counted from
    1, has features, they stand in front of the source, marked by `units.FEATURES`.
    """
    if features is not None and len(paths) != 1:
        raise SearnnError(f"--features {features} is a column: give one file with three columns, not two files")
    return _tabbed(paths[0], bad, features) if len(paths) == 1 else _parallel(paths[0], paths[1], bad)


def _tabbed(path: Path, bad: BadLines, features: int | None) -> Iterator[tuple[int, str, str]]:
    """The pairs of one file."""
    for number, text in good_lines(path, bad):
        fields = text.split("\t")
        if features is not None and len(fields) != 3:
            bad.note(path, number, f"{len(fields)} columns, not three")
            continue
        front = "" if features is None else fields.pop(features - 1).strip() + FEATURES
        if len(fields) != 2:
            bad.note(path, number, "no tab" if len(fields) < 2 else "more than one tab")
            continue
        source, target = fields[0].strip(), fields[1].strip()
        if source and target:
            yield number, front + source, target
        else:
            bad.note(path, number, "empty target" if source else "empty source")


def _parallel(sources: Path, targets: Path, bad: BadLines) -> Iterator[tuple[int, str, str]]:
    """The pairs of two files; a pair that is bad on both sides counts once."""
    lefts, rights = read_lines(sources), read_lines(targets)
    for left, right in zip_longest(lefts, rights):
        if left is None or right is None:
            last = (left or right)[0]
            more = last + sum(1 for _ in (rights if left is None else lefts))
            counts = (last - 1, more) if left is None else (more, last - 1)
            told = f"{sources} has {counts[0]} lines and {targets} has {counts[1]}"
            raise SearnnError(f"{told}: expected a line of the second for every line of the first")
        number, source, reason = left
        _, target, other = right
        if source is None or not (source := source.strip()):
            bad.note(sources, number, reason or "empty source")
        elif target is None or not (target := target.strip()):
            bad.note(targets, number, other or "empty target")
        elif "\t" in source or "\t" in target:  # outputs are printed in fields
            bad.note(sources if "\t" in source else targets, number, "a tab")
        else:
            yield number, source, target


@contextmanager
def open_content(path: Path) -> Iterator[io.BufferedReader]:
    """A file as a stream of what it holds, unpacked."""
    with path.open("rb") as stored:
        yield _unpacked(stored)


def _unpacked(stored: io.BufferedReader) -> io.BufferedReader:
    """The content of a file that may be packed."""
    start = stored.peek(6)
    if start.startswith(b"\x1f\x8b"):
        # Its readline costs several calls in Python for each line; the buffer's does not.
        return io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=stored)), LONGEST)
    if start.startswith(b"\xfd7zXZ\x00"):
        return io.BufferedReader(cast(io.RawIOBase, lzma.LZMAFile(stored)), LONGEST)
    return stored


def _split(content: io.BufferedReader) -> Iterator[Line]:
    """The lines of a stream."""
    room = LONGEST + len(BOM) + 2  # 2 for the line's end
    number = 0
    while line := content.readline(room):
        number += 1
        if len(line) == room and not line.endswith(b"\n"):
            while (rest := content.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
            yield number, None, "too long"
            continue
        if number == 1 and line.startswith(BOM) and not (line := line[len(BOM) :]):
            return
        if line.endswith(b"\n"):
            line = line[: -2 if line.endswith(b"\r\n") else -1]
        if len(line) > LONGEST:
            yield number, None, "too long"
        elif b"\0" in line:
            yield number, None, "NUL"
        else:
            try:
                text = line.decode()
            except UnicodeDecodeError:
                yield number, None, "not UTF-8"
            else:
                yield number, text, ""


def _numbers(times: int, first: tuple[int, ...]) -> str:
    """The first line numbers of a reason."""
    more = ", ..." if times > len(first) else ""
    return f"line{'s' * (times > 1)} {', '.join(map(str, first))}{more}"
