"""Data sets of several files: found, fetched, mended and checked as a folder."""

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from store_cases import empty_places, fail, put, serve

from searnn.data import store
from searnn.data.fetch import Way
from searnn.data.sources import File, Source
from searnn.types import SearnnError


def write(content: bytes) -> Callable[[Path], object]:
    return lambda target: target.write_bytes(content)


TEXTS = {"a.txt": b"one\n", "b.txt": b"two\n", "c.txt": b"three\n"}


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A data set of three files, with the way to get each, which may be changed; `asked` has what was fetched."""
    ways: dict[str, Callable[[Path], object]] = {name: write(text) for name, text in TEXTS.items()}
    asked: list[str] = []

    def make(name: str, target: Path) -> None:
        asked.append(name)
        ways[name](target)

    serve(monkeypatch, {name: partial(make, name) for name in TEXTS})
    files = tuple(
        File(name, len(text), hashlib.sha256(text).hexdigest(), (Way(f"test:{name}"),)) for name, text in TEXTS.items()
    )
    source = Source("several", "three texts", files, "none", "here", "them")
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
    with pytest.raises(SearnnError, match=r"a.txt is damaged or another version.*or put them into FOLDER"):
        store.folder("several")
    assert not list(several.cached.iterdir())


def test_damage_in_the_cache_is_mended(several: SimpleNamespace) -> None:
    store.folder("several")
    several.asked.clear()
    for damaged in (b"tw", b"owt\n"):
        put(several.cached / "b.txt", damaged)
        told: list[str] = []
        assert store.folder("several", told.append) == several.cached
        assert several.asked.pop() == "b.txt"
        assert "b.txt is damaged or another version" in told[0]
    put(several.cached / "b.txt", b"owt\n")
    with pytest.raises(SearnnError, match=r"b.txt is damaged.*it was removed: get it with `searnn data get several`"):
        store.check("several")
    assert store.get("several") == several.cached
    assert several.asked == ["b.txt"]
    assert store.check("several") == several.cached


def test_an_interruption_leaves_nothing_half_there(several: SimpleNamespace) -> None:
    def half(target: Path) -> None:
        target.write_bytes(b"tw")
        raise KeyboardInterrupt

    several.ways["b.txt"] = half
    with pytest.raises(KeyboardInterrupt):
        store.folder("several")
    assert [path.name for path in several.cached.iterdir()] == ["a.txt"]
    several.ways["b.txt"] = write(TEXTS["b.txt"])
    store.folder("several")
    assert {path.name: path.read_bytes() for path in several.cached.iterdir()} == TEXTS


def test_what_is_here_is_not_asked_for_and_nothing_is_printed(
    several: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    store.folder("several")
    several.asked.clear()
    store.folder("several")
    assert several.asked == []
    assert capsys.readouterr() == ("", "")


def test_many_at_once_fetch_once(several: SimpleNamespace) -> None:
    def slow(target: Path) -> None:
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
        with pytest.raises(SearnnError, match=r"cannot be fetched: .*given.several lacks b.txt, c.txt: put them into"):
            ask("several")
    assert not several.cached.exists()
