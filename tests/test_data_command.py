"""`searnn data`: what it lists, gets and says, on data sets made here."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from searnn.cli import data, main
from searnn.data import fetch, store
from searnn.data.fetch import Watch, Way
from searnn.data.sources import File, Source
from searnn.types import SearnnError


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Three data sets: one of two files, one whose source is gone, one that comes by hand alone."""
    given, cache = tmp_path / "given", tmp_path / "cache"
    given.mkdir()
    monkeypatch.setenv("SEARNN_DATA", str(given))
    monkeypatch.setattr(store, "cache_folder", lambda: cache)
    for name in list(store.SOURCES):
        monkeypatch.delitem(store.SOURCES, name)

    def add(name: str, scheme: str | None, *files: str) -> None:
        digests = [hashlib.sha256(file.encode()).hexdigest() for file in files]
        ways = [(Way(f"{scheme}:{file}"),) if scheme else () for file in files]
        made = tuple(File(file, 5, *rest) for file, *rest in zip(files, digests, ways, strict=True))
        source = Source(name, f"the {name} texts", made, f"{name} licence", f"{name} page", "it")
        monkeypatch.setitem(store.SOURCES, name, source)

    def write(way: Way, target: str, watch: Watch) -> None:
        watch(0, 5)
        Path(target).write_text(way.address.removeprefix("earth:"))
        watch(5, 5)

    def gone(way: Way, target: str, watch: Watch) -> None:
        raise SearnnError("the moon cannot be reached")

    monkeypatch.setitem(fetch.DOWNLOADERS, "earth", write)
    monkeypatch.setitem(fetch.DOWNLOADERS, "moon", gone)
    add("hand", None, "x.txt")
    add("moon", "moon", "y.txt")
    add("pair", "earth", "a.txt", "b.txt")
    return SimpleNamespace(given=given, cache=cache)


def fill(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(name.encode())


def test_list(sets: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    fill(sets.cache / "pair", "a.txt")
    fill(sets.given / "hand", "x.txt")
    assert main(["data", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "hand: the hand texts",
        "moon: the moon texts",
        "pair: the pair texts",
    ]
    assert f"  here     {sets.given / 'hand' / 'x.txt'}" in lines
    assert "  here     no: get it with `searnn data get moon`" in lines
    assert "  size     about 10 bytes" in lines
    assert "  files    2 files: a.txt, b.txt" in lines
    assert "  licence  pair licence" in lines
    assert "  origin   moon page" in lines
    assert f"{sets.cache / 'pair'} lacks b.txt" in " ".join(" ".join(lines).split())
    assert main(["data", "list", "moon"]) == 0
    assert capsys.readouterr().out.count("licence") == 2


def test_get_one(sets: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "pair"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{sets.cache / 'pair'}\n"
    assert "pair: fetching a.txt from earth:a.txt\n" in err
    assert (sets.cache / "pair" / "b.txt").read_bytes() == b"b.txt"
    assert main(["data", "get", "pair"]) == 0
    assert capsys.readouterr() == (out, "")
    for name, words in (("moon", "the moon cannot be reached"), ("hand", "put it into FOLDER/hand/")):
        assert main(["data", "get", name]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err.splitlines()[-1]
        assert err.splitlines()[-1].startswith("searnn: error: ")


def test_get_all_goes_on_after_one_that_fails(sets: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get"]) == 2
    out, err = capsys.readouterr()
    assert out == f"{sets.cache / 'pair'}\n"
    errors = [line for line in err.splitlines() if line.startswith("searnn: error: ")]
    assert len(errors) == 1
    assert "'moon' is not here and cannot be fetched" in errors[0]
    assert "hand: only by hand: put it into FOLDER/hand/ and set SEARNN_DATA=FOLDER" in err.splitlines()
    fill(sets.given / "moon", "y.txt")
    fill(sets.given / "hand", "x.txt")
    assert main(["data", "get"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_check(sets: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check"]) == 0
    assert capsys.readouterr().out == "hand: not here\nmoon: not here\npair: not here\n"
    assert main(["data", "check", "moon"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "'moon' is not here: get it with `searnn data get moon`" in err

    fill(sets.given / "pair", "a.txt", "b.txt")
    assert main(["data", "check", "pair"]) == 0
    assert capsys.readouterr().out == f"pair: sound: {sets.given / 'pair'}\n"
    fill(sets.cache / "moon", "y.txt")
    (sets.given / "pair" / "b.txt").write_bytes(b"other")
    assert main(["data", "check"]) == 2
    hand, moon, pair = capsys.readouterr().out.splitlines()
    assert hand == "hand: not here"
    assert moon == f"moon: sound: {sets.cache / 'moon' / 'y.txt'}"
    assert pair.startswith(f"pair: damaged: {sets.given / 'pair' / 'b.txt'} is damaged or another version")
    assert main(["data", "check", "pair"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_folder_that_is_not_there(sets: SimpleNamespace, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SEARNN_DATA", str(sets.given / "none"))
    for action in ("list", "get", "check"):
        assert main(["data", action]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert "which is no folder" in err


def test_an_interruption_gives_130(sets: SimpleNamespace, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "get", interrupt)
    assert main(["data", "get", "pair"]) == 130
    assert capsys.readouterr().err == "searnn: interrupted\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_on_a_terminal_and_elsewhere(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    clock = iter([0.5 * tick + 1 for tick in range(1000)])
    monkeypatch.setattr(data, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, force_interactive=terminal, width=100, color_system=None)
    with data.Reporter(console) as reporter:
        reporter.line("first [file]")
        for done in range(0, 10_001, 500):
            reporter.watch(done * 1000, 10_000_000)
        reporter.line("second file")
        reporter.watch(7, None)
        if terminal:
            reporter.bar.refresh()
    text = stream.getvalue()
    assert "first [file]" in text
    assert "second file" in text
    if terminal:
        assert "10.0 MB" in text or "10.0/10.0 MB" in text
    else:
        lines = text.splitlines()
        assert lines == [
            "first [file]",
            "  5.0 MB of 10.0 MB, 1.0 MB/s",
            "  10.0 MB of 10.0 MB, 1.0 MB/s",
            "second file",
        ]
