"""Data sets of several files: found, fetched, mended and checked as a folder."""

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from store_cases import empty_places, fail, put

from searnn.data import store
from searnn.data.fetch import File, Source, Way, Work
from searnn.types import SearnnError


def write(content: bytes) -> Callable[[Work, Path], None]:
    return lambda work, target: void(target.write_bytes(content))


def void(_: object) -> None:
    pass


TEXTS = {"a.txt": b"one\n", "b.txt": b"two\n", "c.txt": b"three\n"}


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A data set of three files, with the way to get each, which may be changed; `asked` has what was fetched."""
    ways: dict[str, Callable[[Work, Path], None]] = {name: write(text) for name, text in TEXTS.items()}
    asked: list[str] = []

    def make(work: Work, target: Path) -> None:
        asked.append(target.name)
        ways[target.name](work, target)

    files = tuple(
        File(name, len(text), hashlib.sha256(text).hexdigest(), (Way("the test", make),))
        for name, text in TEXTS.items()
    )
    source = Source("several", "three texts", files, "none", "here", "write them into FOLDER/several/")
    monkeypatch.setitem(store.SOURCES, "several", source)
    given, cache = empty_places(tmp_path, monkeypatch)
    return SimpleNamespace(given=given / "several", cached=cache / "several", ways=ways, asked=asked, source=source)


def test_several_files_make_a_folder(several: SimpleNamespace) -> None:
    assert store.find("several") is None
    assert store.folder("several") == several.cached
    assert {path.name: path.read_bytes() for path in several.cached.iterdir()} == TEXTS
    assert store.folder("several") == store.find("several") == store.get("several") == several.cached
    assert several.asked == list(TEXTS)
    for name, text in TEXTS.items():
        put(several.given / name, text)
    assert store.folder("several") == store.find("several") == store.check("several") == several.given


def test_a_broken_fetch_goes_on_with_the_files_that_are_missing(several: SimpleNamespace) -> None:
    several.ways["b.txt"] = fail
    with pytest.raises(SearnnError, match="'several' is not here and cannot be fetched: the line is dead"):
        store.folder("several")
    assert [path.name for path in several.cached.iterdir()] == ["a.txt"]
    with pytest.raises(SearnnError, match=r"several lacks b.txt, c.txt: get it with `searnn data get several`"):
        store.check("several")
    several.ways["b.txt"] = write(TEXTS["b.txt"])
    several.asked.clear()
    store.folder("several")
    assert several.asked == ["b.txt", "c.txt"]


def test_what_is_in_the_given_folder_is_used_as_it_is(several: SimpleNamespace) -> None:
    for name in TEXTS:
        put(several.given / name, b"a version of my own\n")
    assert store.folder("several") == several.given
    for ask in (store.get, store.check):
        with pytest.raises(SearnnError, match=r"a.txt is damaged or another.*b.txt is.*c.txt is.*or unset SEARNN_DATA"):
            ask("several")
    assert len(list(several.given.iterdir())) == 3
    (several.given / "c.txt").unlink()  # in part it is not used
    assert store.folder("several") == several.cached


def test_what_is_fetched_and_wrong_is_never_kept(several: SimpleNamespace) -> None:
    several.ways["a.txt"] = write(b"two\n")
    with pytest.raises(SearnnError, match=r"a.txt is damaged or another version.*or write them into FOLDER"):
        store.folder("several")
    assert not list(several.cached.iterdir())


def test_damage_in_the_cache_is_mended(several: SimpleNamespace) -> None:
    store.folder("several")
    several.asked.clear()
    put(several.cached / "b.txt", b"tw")  # the size tells
    assert store.folder("several") == several.cached
    assert several.asked == ["b.txt"]
    put(several.cached / "b.txt", b"owt\n")  # the content alone tells
    with pytest.raises(SearnnError, match=r"b.txt is damaged.*it was removed: get it with `searnn data get several`"):
        store.check("several")
    assert store.get("several") == several.cached
    assert several.asked == ["b.txt", "b.txt"]
    assert store.check("several") == several.cached


def test_a_broken_download_goes_on_at_the_next_fetch(several: SimpleNamespace) -> None:
    def half(work: Work, target: Path) -> None:
        put(work.kept / "a.txt.part", b"on")
        raise KeyboardInterrupt

    def rest(work: Work, target: Path) -> None:
        target.write_bytes((work.kept / "a.txt.part").read_bytes() + b"e\n")
        (work.kept / "a.txt.part").unlink()

    several.ways["a.txt"] = half
    with pytest.raises(KeyboardInterrupt):
        store.folder("several")
    assert [path.name for path in several.cached.iterdir()] == ["a.txt.part"]
    several.ways["a.txt"] = rest
    store.folder("several")
    assert {path.name: path.read_bytes() for path in several.cached.iterdir()} == TEXTS


def test_many_at_once_fetch_once(several: SimpleNamespace) -> None:
    def slow(work: Work, target: Path) -> None:
        time.sleep(0.2)
        target.write_bytes(TEXTS["a.txt"])

    several.ways["a.txt"] = slow
    with ThreadPoolExecutor(4) as threads:
        places = list(threads.map(store.folder, ["several"] * 4))
    assert places == [several.cached] * 4
    assert several.asked == list(TEXTS)


def test_a_data_set_that_comes_by_hand_alone(several: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = tuple(replace(file, ways=()) for file in several.source.files)
    monkeypatch.setitem(store.SOURCES, "several", replace(several.source, files=bare))
    put(several.given / "a.txt", TEXTS["a.txt"])
    for ask in (store.folder, store.get):
        with pytest.raises(
            SearnnError, match=r"cannot be fetched: .*given.several lacks b.txt, c.txt: write them into"
        ):
            ask("several")
    assert not several.cached.exists()
