"""Data sets by name: finding them, fetching them from their public sources, and checking what was got.

A data set is looked for in the folder that `SEARNN_DATA` names, then in the cache (the platform's folder for such
files), then fetched into the cache. What is fetched is checked before it is kept, and what is damaged is not left in
the cache. `folder` uses what it finds as it is; `get` and `check` look at the content.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from searnn.data import sources
from searnn.data.download import Watch, differs, install, unwatched
from searnn.data.fetch import File, Source, Work
from searnn.types import SearnnError

Progress = Callable[[str], None]  # is told what happens, line by line

SOURCES = sources.SOURCES


@dataclass(frozen=True)
class Row:
    """A line of the list of data sets; `where` is None where it is not here, and `how` says then what to do."""

    name: str
    where: Path | None
    size: int
    files: tuple[str, ...]
    terms: str
    source: str
    what: str
    how: str
    fetchable: bool


def quiet(line: str) -> None:
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
        return _fetch(source, progress, watch, File.right_size)
    return root / name


def get(name: str, progress: Progress = quiet, watch: Watch = unwatched) -> Path:
    """Find the data set or fetch it into the cache, and check its content; returns what `find` would."""
    source = _source(name)
    root = _root(source)
    if root is not None:
        try:
            return check(name)
        except SearnnError as error:
            if root != cache_folder():
                raise
            progress(str(error))
    _fetch(source, progress, watch, _is_sound)
    return _place(source, cache_folder())


def check(name: str) -> Path:
    """Check the content of the data set that `find` finds; what is damaged is refused and, in the cache, removed."""
    source = _source(name)
    root = _root(source)
    if root is None:
        raise SearnnError(f"the data set {name!r} is not here: {_how(source)}")
    told = []
    for file in source.files:
        path = _path(source, file, root)
        try:
            _verify(file, path)
        except SearnnError as error:
            told.append(f"{error}; {_remove(path)}" if root == cache_folder() else str(error))
    if told and root == cache_folder():
        raise SearnnError(f"{'; '.join(told)}: get it with `searnn data get {name}`")
    if told:
        fetched = ", or unset SEARNN_DATA to have it fetched" if source.fetchable else ""
        raise SearnnError(f"{'; '.join(told)}; replace it{fetched}")
    return _place(source, root)


def listing() -> list[Row]:
    """Every data set there is, and where it lies; nothing is fetched or read."""
    return [
        Row(
            source.name,
            find(source.name),
            sum(file.size for file in source.files),
            tuple(file.name for file in source.files),
            source.terms,
            source.origin,
            source.what,
            _how(source),
            source.fetchable,
        )
        for source in SOURCES.values()
    ]


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


def _path(source: Source, file: File, root: Path) -> Path:
    """Where a file lies, or would lie."""
    paths = [root / source.name / name for name in (file.name, *file.others)]
    return next((path for path in paths if os.path.isfile(path)), paths[0])


def _place(source: Source, root: Path) -> Path:
    """A data set's one file, or the folder of several."""
    return root / source.name if len(source.files) > 1 else _path(source, source.files[0], root)


def _missing(source: Source, root: Path) -> list[str]:
    """Which files are not in a folder of data sets."""
    return [file.name for file in source.files if not os.path.isfile(_path(source, file, root))]


def _how(source: Source) -> str:
    """How to come by a data set that is not here, or only in part."""
    parts = [(root / source.name, _missing(source, root)) for root in _roots()]
    lacking = "".join(f"{place} lacks {', '.join(m)}: " for place, m in parts if 0 < len(m) < len(source.files))
    return lacking + (f"get it with `searnn data get {source.name}`" if source.fetchable else source.by_hand)


def _verify(file: File, path: Path) -> None:
    """Refuse a file that does not hold together or has other content."""
    found = file.digest(path)
    if file.sha256 is not None and found != file.sha256:
        raise SearnnError(f"{path} is damaged or another version: its content has the {differs(found, file.sha256)}")


def _is_sound(file: File, path: Path) -> bool:
    """Whether `_verify` would let it pass."""
    try:
        _verify(file, path)
    except SearnnError:
        return False
    return True


def _remove(path: Path) -> str:
    """Remove a damaged file; say whether that was possible."""
    try:
        path.unlink(missing_ok=True)
    except OSError as failure:
        return f"it could not be removed ({failure.strerror})"
    return "it was removed"


def _fetch(source: Source, progress: Progress, watch: Watch, good: Callable[[File, Path], bool]) -> Path:
    """Bring into the cache every file that is not there and good; each is kept as it comes."""
    place = cache_folder() / source.name

    def wanted() -> list[File]:
        return [
            file for file in source.files if not (os.path.isfile(place / file.name) and good(file, place / file.name))
        ]

    if not wanted():
        return place
    if not source.fetchable:
        raise SearnnError(f"the data set {source.name!r} is not here and cannot be fetched: {_how(source)}")
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _alone(place):
            for file in wanted():  # asked again: another process may have fetched them meanwhile
                _fetch_file(source, file, place, progress, watch)
    except OSError as error:
        told = f"{place} cannot be written ({error.strerror or error})"
        advice = "free some space or set XDG_CACHE_HOME to a folder that can be written"
        raise SearnnError(f"{told}: {advice}, or {source.by_hand}") from error
    return place


def _fetch_file(source: Source, file: File, place: Path, progress: Progress, watch: Watch) -> None:
    """Make a file by the first way that gives sound content, beside its place in the cache, and rename it there."""
    failures = []
    for way in file.ways:
        progress(f"{source.name}: fetching {file.name} from {way.where}")
        with tempfile.TemporaryDirectory(dir=place, prefix=".fetching-") as scratch:
            made = Path(scratch, file.name)
            try:
                way.make(Work(Path(scratch), place, watch), made)
                _verify(file, made)
            except SearnnError as error:
                failures.append(str(error))
                progress(f"{source.name}: {error}")
                continue
            install(made, place / file.name)
        progress(f"{source.name}: checked and kept as {place / file.name}")
        return
    told = f"the data set {source.name!r} is not here and cannot be fetched: {'; '.join(failures)}"
    raise SearnnError(f"{told}: try again with a network, or {source.by_hand}")


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Wait until no other process fetches into the folder: the ranks of one job ask for their data all at once."""
    try:
        import fcntl
    except ImportError:  # the platform has no such locks
        yield
        return
    held = os.open(place, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network disks have no locks either
            fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)  # which gives the lock back
