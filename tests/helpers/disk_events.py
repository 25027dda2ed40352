"""Every change of the disk: recorded, a process killed at one of them, and what a kill or a power cut leaves."""

from __future__ import annotations

import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from searnn import files

Change = tuple[str, Path, "bytes | Path | None"]  # what `files.about_to` is told
KILLED = 9
WRITES = ("write", "append")
SAVED = "saved"  # told by a test: a checkpoint's save has returned


@contextmanager
def hooked(hook: Callable[..., None]) -> Iterator[None]:
    """Inside, the hook is told of every change, and nothing waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "about_to", hook)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


def recorded(action: Callable[[], object]) -> list[Change]:
    """The changes that an action makes, in their order."""
    seen: list[Change] = []
    with hooked(lambda change, path, more=None: seen.append((change, path, more))):
        action()
    return seen


def killed_at(number: int, action: Callable[[], object], half: bool = False) -> bool:
    """Do it in a child that dies before its change of this number, or having done `half` of it; whether it died."""
    child = os.fork()
    if child:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert status in (0, KILLED), f"the child ended with status {status}"
        return status == KILLED
    seen = 0

    def die(change: str, path: Path, more: bytes | Path | None = None) -> None:
        nonlocal seen
        if seen == number:
            if half and isinstance(more, bytes):
                with path.open("ab" if change == "append" else "wb") as file:
                    file.write(more[: len(more) // 2])
            os._exit(KILLED)
        seen += 1

    status = 1
    try:
        with hooked(die):
            action()
        status = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)


@dataclass
class File:
    """What processes read of a file, and what is safe of it."""

    content: bytes = b""
    safe: bytes = b""


@dataclass
class Folder:
    """The names that processes find in a folder, and those that are safe."""

    names: dict[str, File | Folder] = field(default_factory=dict)
    safe: dict[str, File | Folder] = field(default_factory=dict)


class Disk:
    """An empty folder of a disk, on which changes are done as they were recorded, and what is not safe yet known."""

    def __init__(self, path: Path) -> None:
        self.path, self.root = path, Folder()

    def do(self, change: str, path: Path, more: bytes | Path | None = None) -> None:
        """One change."""
        if change == SAVED or not path.is_relative_to(self.path):
            return
        if change == "sync":
            found = self._find(path)
            if isinstance(found, File):
                found.safe = found.content
            else:
                found.safe = dict(found.names)
            return
        names = self._folder(path.parent).names
        if change in WRITES:
            file = names.setdefault(path.name, File())
            assert isinstance(file, File)
            assert isinstance(more, bytes)
            file.content = file.content + more if change == "append" else more
        elif change == "rename":
            assert isinstance(more, Path)
            self._folder(more.parent).names[more.name] = names.pop(path.name)
        elif change == "make folder":
            names.setdefault(path.name, Folder())
        else:
            names.pop(path.name, None)

    def contents(self) -> dict[str, bytes]:
        """What processes find, by the path; a folder's ends with a stroke."""
        return dict(_contents(self.root))

    def after_cut(self, draw: random.Random, reached: float) -> dict[str, bytes]:
        """What is left after a power cut; each change that is not safe reached the disk with this probability.

        Of what was written to a file and is not safe a part may be there, or zeros.
        """
        return dict(_contents(_cut(self.root, draw, reached)))

    def _find(self, path: Path) -> File | Folder:
        found: File | Folder = self.root
        for name in path.relative_to(self.path).parts:
            assert isinstance(found, Folder)
            found = found.names[name]
        return found

    def _folder(self, path: Path) -> Folder:
        found = self._find(path)
        assert isinstance(found, Folder)
        return found


def after_kills(path: Path, changes: Sequence[Change]) -> Iterator[tuple[int, str, dict[str, bytes]]]:
    """What a kill before each of the changes, or in the middle of a write, leaves, each once; its number, and where."""
    disk, seen = Disk(path), set[frozenset[tuple[str, bytes]]]()
    for number, (change, place, more) in enumerate([*changes, ("sync", path, None)]):
        left = [("before", disk.contents())]
        if change in WRITES and isinstance(more, bytes):
            half = Disk(path)
            for earlier in changes[:number]:
                half.do(*earlier)
            half.do(change, place, more[: len(more) // 2])
            left.append(("in the middle of", half.contents()))
        for where, contents in left:
            if frozenset(contents.items()) not in seen:
                seen.add(frozenset(contents.items()))
                yield number, f"{where} {number}, {change} {place}", contents
        disk.do(change, place, more)


def after_cuts(
    path: Path, changes: Sequence[Change], reached: Sequence[float]
) -> Iterator[tuple[int, str, dict[str, bytes]]]:
    """What a power cut before each of the changes may leave; the number of the change, and where it is."""
    disk, draw = Disk(path), random.Random(0)
    for number, (change, place, more) in enumerate([*changes, ("sync", path, None)]):
        for part in reached:
            yield number, f"{part} reached the disk before {number}, {change} {place}", disk.after_cut(draw, part)
        disk.do(change, place, more)


def laid_out(contents: Mapping[str, bytes], to: Path) -> None:
    """Make the files and folders."""
    to.mkdir()
    for name, content in contents.items():
        if name.endswith("/"):
            (to / name).mkdir()
        else:
            (to / name).write_bytes(content)


def _cut(folder: Folder, draw: random.Random, reached: float) -> Folder:
    left = dict(folder.safe)
    for name in {**folder.names, **folder.safe}:
        if folder.names.get(name) is not folder.safe.get(name) and draw.random() < reached:
            left.pop(name, None)
            if name in folder.names:
                left[name] = folder.names[name]
    names: dict[str, File | Folder] = {}
    for name, found in left.items():
        names[name] = _cut(found, draw, reached) if isinstance(found, Folder) else File(_cut_file(found, draw, reached))
    return Folder(names)


def _cut_file(file: File, draw: random.Random, reached: float) -> bytes:
    if file.content == file.safe or draw.random() >= reached:
        return file.safe
    start = len(file.safe) if file.content.startswith(file.safe) else 0
    new = bytearray(file.content[start:])
    half, how = len(new) // 2, draw.randrange(4)
    if how == 1:
        del new[half:]
    elif how == 2:
        new[:] = bytes(len(new))
    elif how == 3:
        new[:half] = bytes(half)  # the end came before the beginning
    return file.content[:start] + bytes(new)


def _contents(folder: Folder, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for name, found in folder.names.items():
        if isinstance(found, Folder):
            yield f"{prefix}{name}/", b""
            yield from _contents(found, f"{prefix}{name}/")
        else:
            yield prefix + name, found.content
