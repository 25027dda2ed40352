"""Downloading a file: streamed to the disk, taken up again where it broke off, checked before it gets its name."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from searnn.types import SearnnError

Watch = Callable[[int, int | None], None]  # is told the bytes here, and the bytes in all where the server says so

ATTEMPTS = 3  # in a row that bring nothing new
PAUSE = 1.0  # seconds before the second attempt; longer before each further one
PATIENCE = 10.0  # seconds without an answer
CHUNK = 1 << 17
LARGEST = 256_000_000  # bytes: more than any file fetched here has


def unwatched(done: int, total: int | None) -> None:
    """Nobody is told."""


def download(
    address: str, target: Path, sha256: str | None = None, kept: Path | None = None, watch: Watch = unwatched
) -> None:
    """Bring what stands at an address to `target`.

    What has come so far is in NAME.part, in the folder `kept` (the target's own, unless given), and stays there when
    the line breaks for good or the user does: the next call goes on from it, if the server says that the file is still
    the same. It is removed where the whole has another SHA-256 than expected. An error of the disk is an `OSError`.
    """
    part = _Part(address, (kept or target.parent) / f"{target.name}.part")
    most, failures = 0, 0
    while True:
        try:
            if not part.complete():
                _receive(part, watch)
            break
        except _BrokenError as error:
            failures = 1 if part.size() > most else failures + 1
            most = max(most, part.size())
            if error.final or failures >= ATTEMPTS:
                raise SearnnError(f"{address} {error}") from error
            time.sleep(PAUSE * failures)
    if sha256 is not None and (found := file_sha256(part.file)) != sha256:
        part.discard()
        raise SearnnError(f"{address} is damaged or another version: {differs(found, sha256)}")
    install(part.file, target)
    part.discard()


def file_sha256(path: Path) -> str:
    """SHA-256 of a file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SearnnError(f"{path} cannot be read: {error.strerror}") from error


def differs(found: str, expected: str) -> str:
    """Two digests, as messages show them."""
    return f"SHA-256 {found[:16]}..., expected {expected[:16]}..."


def install(made: Path, target: Path) -> None:
    """Rename a finished file to its place, on the disk first, so that a crash leaves either nothing or all of it."""
    with made.open("rb+") as stream:
        os.fsync(stream.fileno())
    made.replace(target)
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def one_line(reason: object) -> str:
    """What went wrong, on one line of bearable length."""
    return " ".join(str(reason).split())[:200] or type(reason).__name__


class _BrokenError(Exception):
    """A download that did not come to its end; `final` where trying again is of no use."""

    def __init__(self, message: str, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


@dataclass(frozen=True)
class _Version:
    """Which file the server has: its strong ETag or date, and its size; None where the server does not say."""

    mark: str | None
    total: int | None

    @classmethod
    def of(cls, answer: http.client.HTTPResponse) -> _Version:
        """The version that an answer belongs to, whole (200) or from some place on (206)."""
        tag = answer.headers.get("ETag") or ""
        mark = tag if tag.startswith('"') else answer.headers.get("Last-Modified")
        length = answer.headers.get("Content-Length")
        if answer.status == 206:
            length = answer.headers.get("Content-Range", "").rpartition("/")[2]
        return cls(mark, int(length) if length and length.isdecimal() else None)


class _Part:
    """What has come so far, and a note of the version it belongs to, without which it is of no use."""

    def __init__(self, address: str, file: Path) -> None:
        self.address, self.file, self.note = address, file, file.with_name(f"{file.name}.json")

    def version(self) -> _Version | None:
        """The version of what is here; None where there is nothing that could be gone on with."""
        try:
            note = json.loads(self.note.read_text("utf-8"))
            version = _Version(note["mark"], note["total"])
            known = note["address"] == self.address and version.mark is not None and self.file.is_file()
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return version if known else None

    def begin(self, version: _Version) -> None:
        """Start anew; the old part goes first, so that a note never stands beside another version's bytes."""
        self.discard()
        self.file.touch()
        self.note.write_text(json.dumps({"address": self.address, **asdict(version)}), "utf-8")

    def size(self) -> int:
        """Bytes here."""
        return self.file.stat().st_size if self.file.is_file() else 0

    def complete(self) -> bool:
        """Whether all is here already, as after an interruption at the very end."""
        version = self.version()
        return version is not None and version.total == self.size()

    def discard(self) -> None:
        """Remove it."""
        self.file.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def _receive(part: _Part, watch: Watch) -> None:
    """Ask for what is missing, or for all of it, and write it down as it comes."""
    known = part.version()
    have = part.size() if known else 0
    headers = {"User-Agent": "searnn", "Accept-Encoding": "identity"}
    if known and known.mark and have:
        headers |= {"Range": f"bytes={have}-", "If-Range": known.mark}
    with _open(urllib.request.Request(part.address, headers=headers), part) as answer:
        version = _Version.of(answer)
        if answer.status == 206:
            begins = answer.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
            if version != known or begins != str(have):
                part.discard()
                raise _BrokenError("sent a part of another version")
        else:
            have = 0
            part.begin(version)
        if (version.total or 0) > LARGEST:
            raise _BrokenError(f"has {version.total} bytes, expected at most {LARGEST}", final=True)
        total = version.total
        with part.file.open("rb+") as stream:
            stream.seek(have)
            watch(have, total)
            while total is None or have < total:
                chunk = _read(answer, CHUNK if total is None else min(CHUNK, total - have))
                if not chunk:
                    break
                have += stream.write(chunk)
                watch(have, total)
                if have > LARGEST:
                    raise _BrokenError(f"sends no end of bytes, expected at most {LARGEST}", final=True)
    if total is not None and have != total:
        raise _BrokenError(f"was cut short: {have} bytes came of {total}")


def _open(request: urllib.request.Request, part: _Part) -> Any:
    """The server's answer, 200 or 206."""
    try:
        return urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # there is less of it now than is here
            part.discard()
            raise _BrokenError("has become shorter") from error
        passing = error.code >= 500 or error.code in (408, 429)
        raise _BrokenError(f"answers {error.code} {one_line(error.reason)}", final=not passing) from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        nowhere = isinstance(reason, socket.gaierror)  # there is no such name, or no network at all
        raise _BrokenError(f"cannot be reached ({one_line(reason)})", final=nowhere) from error


def _read(answer: http.client.HTTPResponse, most: int) -> bytes:
    """What comes next; an error here is one of the line, not of the disk."""
    try:
        return answer.read1(most)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(f"broke off ({one_line(error)})") from error
