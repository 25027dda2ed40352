"""Data sets by name: finding them, fetching them from their public sources, and checking what was got.

A data set is looked for in the folder that `SEARNN_DATA` names, then in the cache (the platform's folder for such
files), then fetched into the cache. What is fetched is checked before it is kept, and what is damaged is not left in
the cache. What `SEARNN_DATA` holds is never changed: `folder` uses it as it is, `get` and `check` look at the content.
A version that is not known here is kept in the cache if its SHA-256 was given to `get`, which is recorded there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import platformdirs
from filelock import FileLock

from searnn.data.fetch import Watch
from searnn.data.reading import read_file
from searnn.data.sources import SOURCES, File, Source
from searnn.data.versions import UntrustedError, accept, check_wanted, verify
from searnn.files import make_folder, remove, replace_file
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


def get(name: str, progress: Progress = quiet, watch: Watch = unwatched, *, sha256: str | None = None) -> Path:
    """Find the data set or fetch it into the cache, and check its content; returns what `find` would.

    `sha256` accepts this version of the file of a set whose source changes, from now on and instead of any other.
    """
    source = _source(name)
    if sha256 is not None:
        check_wanted(source, sha256)
    root = _root(source)
    if root is not None and root != cache_folder():
        if sha256 not in (None, *versions(name).values()):
            told = f"SEARNN_DATA has another version of {name}, which comes before the cache"
            raise SearnnError(f"{told}: replace it, or unset SEARNN_DATA to have it fetched")
        return check(name)
    _fetch(source, progress, watch, sha256)
    return _place(source, cache_folder())


def check(name: str) -> Path:
    """Check the content of the data set that `find` finds; what is damaged is refused and, in the cache, removed."""
    source = _source(name)
    root = _root(source)
    if root is None:
        raise SearnnError(f"the data set {name!r} is not here: {how(source)}")
    faults = _faults(source, root)
    if not faults:
        return _place(source, root)
    if root == cache_folder():
        _stop_at_untrusted(faults)
        told = "; ".join(f"{fault}; {_remove(file.path(root / name))}" for file, fault in faults.items())
        raise SearnnError(f"{told}: get it with `searnn data get {name}`")
    fetched = ", or unset SEARNN_DATA to have it fetched" if source.fetchable else ""
    raise SearnnError(f"{'; '.join(map(str, faults.values()))}; replace it{fetched}")


def versions(name: str) -> dict[str, str]:
    """The SHA-256 of each file of a data set that is here, if sound ones may differ, by the file's name."""
    source = _source(name)
    root = _root(source)
    paths = {} if root is None else {file: file.path(root / name) for file in source.files if file.changes}
    return {path.name: file.digest(read_file(path), str(path)) for file, path in paths.items()}


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


def _faults(source: Source, root: Path, sha256: str | None = None) -> dict[File, SearnnError]:
    """What is wrong with the files in one of the folders; `sha256` is the one right version of a file that changes."""
    found = {}
    for file in source.files:
        path = file.path(root / source.name)
        try:
            verify(file, read_file(path), str(path), path, sha256)
        except SearnnError as error:
            fetched = root == cache_folder() and file.ways  # else the user has put it there
            if fetched or not isinstance(error, UntrustedError):
                found[file] = error
    return found


def _stop_at_untrusted(faults: Mapping[File, SearnnError]) -> None:
    """Leave a file where it is that the user alone can call right or wrong."""
    for fault in faults.values():
        if isinstance(fault, UntrustedError):
            raise fault


def _remove(path: Path) -> str:
    """Remove a damaged file; say whether that was possible."""
    try:
        remove(path)
    except OSError as failure:
        return f"it could not be removed ({failure.strerror})"
    return "it was removed"


def _fetch(source: Source, progress: Progress, watch: Watch, sha256: str | None = None) -> None:
    """Bring into the cache every file that is not there and sound; each is kept as it comes."""
    place = cache_folder() / source.name
    faults = partial(_faults, source, cache_folder(), sha256)
    if not faults() and sha256 is None:
        return
    if not source.fetchable:
        raise SearnnError(f"the data set {source.name!r} is not here and cannot be fetched: {how(source)}")
    try:
        make_folder(place)
        with FileLock(place.with_name(f".{source.name}.lock")):  # the ranks of one job ask for their data all at once
            found = faults()  # asked again: another process may have fetched them meanwhile
            if sha256 is None:
                _stop_at_untrusted(found)
            for file, fault in found.items():
                path = file.path(place)
                if path.exists() and not isinstance(fault, UntrustedError):
                    progress(f"{fault}; {_remove(path)}")
                (place / file.name).parent.mkdir(parents=True, exist_ok=True)
                replace_file(place / file.name, _bring(source, file, place, progress, watch, sha256))
                progress(f"{source.name}: checked and kept as {place / file.name}")
            for file in source.files:
                if sha256 is not None and file.changes:
                    accept(place / file.name, sha256)
                    progress(
                        f"{source.name}: {file.name} is trusted with the SHA-256 {sha256}, and no other from now on"
                    )
    except OSError as error:
        told = f"{place} cannot be written ({error.strerror or error})"
        advice = "free some space or set XDG_CACHE_HOME to a folder that can be written"
        raise SearnnError(f"{told}: {advice}, or {source.by_hand}") from error


def _bring(
    source: Source, file: File, place: Path, progress: Progress, watch: Watch, sha256: str | None = None
) -> bytes:
    """The content of a file by the first way that gives it sound."""
    failures, untrusted = [], None
    for way in file.ways:
        progress(f"{source.name}: fetching {file.name} from {way.where}")
        try:
            with tempfile.TemporaryDirectory(dir=place, prefix=".fetching-") as scratch:
                content = way.bring(Path(scratch), watch)
            verify(file, content, file.name, place / file.name, sha256)
        except SearnnError as error:
            failures.append(str(error))
            progress(f"{source.name}: {error}")
            if isinstance(error, UntrustedError):
                untrusted = error
        else:
            return content
    if untrusted is not None:
        raise untrusted
    told = f"the data set {source.name!r} is not here and cannot be fetched: {'; '.join(failures)}"
    raise SearnnError(f"{told}: try again with a network, or {source.by_hand}")
