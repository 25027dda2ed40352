"""Data sets by name: finding them, fetching them from their public sources, and checking what was got.

A data set is looked for in the folder that `SEARNN_DATA` names, then in the cache (the platform's folder for such
files), then fetched into the cache. What is fetched is checked before it is kept, and what is damaged is not left in
the cache. What `SEARNN_DATA` holds is never changed: `folder` uses it as it is, `get` and `check` look at the content.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs
from filelock import FileLock

from searnn.data.fetch import Watch
from searnn.data.reading import read_file
from searnn.data.sources import SOURCES, File, Source
from searnn.files import replace_file
from searnn.types import SearnnError

Progress = Callable[[str], None]  # is told what happens, line by line


def quiet(line: str) -> None:
    """Nobody is told."""


def unwatched(done: int, total: int | None) -> None:
    """Nobody is told."""


def find(name: str) -> Path | None:
    """Where the data set lies, in the folder `SEARNN_DATA` or in the cache; None where it must be fetched.

    It is the file itself where the data set is one file, else the folder of its files.
    """
    source = _source(name)
    root = _root(source)
    return None if root is None else _place(source, root)


def folder(name: str, progress: Progress = quiet, watch: Watch = unwatched) -> Path:
    """The folder that holds the data set's files, found or fetched; what is found in `SEARNN_DATA` is used as it is."""
    source = _source(name)
    root = _root(source)
    if root is None or root == cache_folder():
        _fetch(source, progress, watch)
    return (root or cache_folder()) / name


def get(name: str, progress: Progress = quiet, watch: Watch = unwatched) -> Path:
    """Find the data set or fetch it into the cache, and check its content; returns what `find` would."""
    source = _source(name)
    root = _root(source)
    if root is not None and root != cache_folder():
        return check(name)
    _fetch(source, progress, watch)
    return _place(source, cache_folder())


def check(name: str) -> Path:
    """Check the content of the data set that `find` finds; what is damaged is refused and, in the cache, removed."""
    source = _source(name)
    root = _root(source)
    if root is None:
        raise SearnnError(f"the data set {name!r} is not here: {how(source)}")
    paths = [file.path(root / name) for file in source.files]
    faults = [_fault(file, path) for file, path in zip(source.files, paths, strict=True)]
    if not any(faults):
        return _place(source, root)
    if root == cache_folder():
        told = "; ".join(f"{fault}; {_remove(path)}" for fault, path in zip(faults, paths, strict=True) if fault)
        raise SearnnError(f"{told}: get it with `searnn data get {name}`")
    fetched = ", or unset SEARNN_DATA to have it fetched" if source.fetchable else ""
    raise SearnnError(f"{'; '.join(filter(None, faults))}; replace it{fetched}")


def how(source: Source) -> str:
    """How to come by a data set that is not here, or only in part."""
    found = [(root / source.name, _missing(source, root)) for root in _roots()]
    lacking = "".join(f"{place} lacks {', '.join(m)}: " for place, m in found if 0 < len(m) < len(source.files))
    return lacking + (f"get it with `searnn data get {source.name}`" if source.fetchable else source.by_hand)


def cache_folder() -> Path:
    """The folder for what was fetched: the platform's cache, which `XDG_CACHE_HOME` moves on Linux."""
    return platformdirs.user_cache_path("searnn", appauthor=False)


def _source(name: str) -> Source:
    """The record of a data set."""
    if name not in SOURCES:
        raise SearnnError(f"there is no data set {name!r}, expected one of {', '.join(sorted(SOURCES))}")
    return SOURCES[name]


def _roots() -> list[Path]:
    """The folders of data sets: the one that the environment names, and the cache."""
    given = os.environ.get("SEARNN_DATA")
    if not given:
        return [cache_folder()]
    named = Path(given).expanduser()
    if not os.path.isdir(named):  # unlike Path's, it does not raise where it may not look
        raise SearnnError(f"SEARNN_DATA is {given}, which is no folder: set it to one that is there, or unset it")
    return [named, cache_folder()]


def _root(source: Source) -> Path | None:
    """The first of the folders that has all files of the data set."""
    return next((root for root in _roots() if not _missing(source, root)), None)


def _place(source: Source, root: Path) -> Path:
    """A data set's one file, or the folder of several."""
    return root / source.name if len(source.files) > 1 else source.files[0].path(root / source.name)


def _missing(source: Source, root: Path) -> list[str]:
    """Which files are not in a folder of data sets."""
    return [file.name for file in source.files if not os.path.isfile(file.path(root / source.name))]


def _fault(file: File, path: Path) -> str | None:
    """What is wrong with a file; None where it is sound."""
    try:
        file.verify(read_file(path), str(path))
    except SearnnError as error:
        return str(error)
    return None


def _remove(path: Path) -> str:
    """Remove a damaged file; say whether that was possible."""
    try:
        path.unlink(missing_ok=True)
    except OSError as failure:
        return f"it could not be removed ({failure.strerror})"
    return "it was removed"


def _fetch(source: Source, progress: Progress, watch: Watch) -> None:
    """Bring into the cache every file that is not there and sound; each is kept as it comes."""
    place = cache_folder() / source.name

    def faults() -> dict[File, str]:
        return {file: fault for file in source.files if (fault := _fault(file, file.path(place)))}

    if not faults():
        return
    if not source.fetchable:
        raise SearnnError(f"the data set {source.name!r} is not here and cannot be fetched: {how(source)}")
    try:
        place.mkdir(parents=True, exist_ok=True)
        with FileLock(place.with_name(f".{source.name}.lock")):  # the ranks of one job ask for their data all at once
            for file, fault in faults().items():  # asked again: another process may have fetched them meanwhile
                path = file.path(place)
                if path.exists():
                    progress(f"{fault}; {_remove(path)}")
                replace_file(place / file.name, _bring(source, file, place, progress, watch))
                progress(f"{source.name}: checked and kept as {place / file.name}")
    except OSError as error:
        told = f"{place} cannot be written ({error.strerror or error})"
        advice = "free some space or set XDG_CACHE_HOME to a folder that can be written"
        raise SearnnError(f"{told}: {advice}, or {source.by_hand}") from error


def _bring(source: Source, file: File, place: Path, progress: Progress, watch: Watch) -> bytes:
    """The content of a file by the first way that gives it sound."""
    failures = []
    for way in file.ways:
        progress(f"{source.name}: fetching {file.name} from {way.where}")
        try:
            with tempfile.TemporaryDirectory(dir=place, prefix=".fetching-") as scratch:
                content = way.bring(Path(scratch), watch)
            file.verify(content, file.name)
        except SearnnError as error:
            failures.append(str(error))
            progress(f"{source.name}: {error}")
        else:
            return content
    told = f"the data set {source.name!r} is not here and cannot be fetched: {'; '.join(failures)}"
    raise SearnnError(f"{told}: try again with a network, or {source.by_hand}")
