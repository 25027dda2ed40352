"""Files whose source changes: a version that nobody knows is kept only once the user has accepted it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from store_cases import empty_places, put, serve

from searnn.cli import main
from searnn.data import contents, store
from searnn.data.fetch import Way
from searnn.data.sources import File, Source

KNOWN, NEW, NEWER = (f"Hi.\tHallo, {word}!\n".encode() for word in ("alte", "neue", "neuere"))
Ask = Callable[..., tuple[int, str, str]]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A set of one file, of which its source has `now`; one version of it is known."""
    given, cache = empty_places(tmp_path, monkeypatch)
    made = SimpleNamespace(given=given / "pairs" / "deu.txt", cached=cache / "pairs" / "deu.txt", now=NEW, asked=0)

    def bring(target: Path) -> None:
        made.asked += 1
        target.write_bytes(made.now)

    serve(monkeypatch, {"pairs": bring})
    file = File("deu.txt", 9, sha256(KNOWN), (Way("test:pairs"),), contents.pairs_digest, changes=True)
    fixed = File("deu.txt", 9, sha256(KNOWN), (Way("test:pairs"),))
    hand = File("deu.txt", 9, digest=contents.text_digest, changes=True)
    for name in list(store.SOURCES):
        monkeypatch.delitem(store.SOURCES, name)
    for name, one in {"pairs": file, "fixed": fixed, "hand": hand}.items():
        monkeypatch.setitem(store.SOURCES, name, Source(name, "texts", (one,), "none", "here", "it"))
    return made


@pytest.fixture
def ask(pairs: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> Ask:
    """`searnn data`: its exit status, what it printed, and the last line on its error output."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(["data", *arguments])
        out, err = capsys.readouterr()
        return status, out, (err.splitlines() or [""])[-1]

    return run


def test_an_unknown_version_is_not_kept_until_it_is_accepted(pairs: SimpleNamespace, ask: Ask) -> None:
    status, out, err = ask("get", "pairs")
    assert (status, out) == (2, "")
    assert f"deu.txt has the SHA-256 {sha256(NEW)}, expected {sha256(KNOWN)}: its source changes" in err
    assert f"`searnn data get pairs --sha256 {sha256(NEW)}`" in err
    assert not list(pairs.cached.parent.iterdir())
    with pytest.raises(store.SearnnError, match="if you trust this version"):
        store.folder("pairs")  # as training asks for it

    status, out, err = ask("get", "pairs", "--sha256", sha256(NEW))
    assert (status, out) == (0, f"{pairs.cached}\n")
    assert f"deu.txt is trusted with the SHA-256 {sha256(NEW)}" in err
    assert pairs.cached.read_bytes() == NEW
    record = pairs.cached.with_name("deu.txt.sha256")
    assert record.read_text() == f"{sha256(NEW)}  deu.txt\n"
    pairs.asked = 0
    assert store.folder("pairs") == pairs.cached.parent
    assert ask("get", "pairs")[0] == ask("check", "pairs")[0] == 0
    assert ask("get", "pairs", "--sha256", sha256(NEW))[0] == 0
    assert pairs.asked == 0


def test_the_known_version_needs_no_word(pairs: SimpleNamespace, ask: Ask) -> None:
    pairs.now = KNOWN
    assert ask("get", "pairs") == (0, f"{pairs.cached}\n", f"pairs: checked and kept as {pairs.cached}")
    assert list(pairs.cached.parent.iterdir()) == [pairs.cached]


def test_a_change_after_the_first_time_is_seen(pairs: SimpleNamespace, ask: Ask) -> None:
    ask("get", "pairs", "--sha256", sha256(NEW))
    pairs.now = NEWER
    pairs.cached.unlink()
    status, _, err = ask("get", "pairs")
    assert status == 2
    assert sha256(NEWER) in err
    assert sha256(NEW) in err
    pairs.now = NEW
    assert ask("get", "pairs")[0] == 0  # the one accepted once comes without being named again

    pairs.now = NEWER
    put(pairs.cached, NEWER)  # changed in the cache
    for action in ("get", "check"):
        status, _, err = ask(action, "pairs")
        assert status == 2
        assert "if you trust this version" in err
        assert pairs.cached.read_bytes() == NEWER  # it may be right: the user has to say
    pairs.asked = 0
    assert ask("get", "pairs", "--sha256", sha256(NEWER))[0] == ask("check", "pairs")[0] == 0
    assert pairs.asked == 0


def test_another_version_than_the_one_wanted(pairs: SimpleNamespace, ask: Ask) -> None:
    ask("get", "pairs", "--sha256", sha256(NEW))
    status, _, err = ask("get", "pairs", "--sha256", sha256(NEWER))
    assert status == 2
    assert f"has the SHA-256 {sha256(NEW)}, expected {sha256(NEWER)}" in err
    assert pairs.cached.read_bytes() == NEW
    assert ask("check", "pairs")[0] == 0  # nothing is lost
    pairs.now = NEWER
    assert ask("get", "pairs", "--sha256", sha256(NEWER))[0] == 0
    assert pairs.cached.read_bytes() == NEWER


def test_what_is_damaged_is_not_to_be_trusted(pairs: SimpleNamespace, ask: Ask) -> None:
    ask("get", "pairs", "--sha256", sha256(NEW))
    put(pairs.cached, b"Hi.")
    status, _, err = ask("check", "pairs")
    assert status == 2
    assert "damaged or something else" in err
    assert not pairs.cached.exists()
    pairs.now = b"<html>not found</html>"
    status, _, err = ask("get", "pairs", "--sha256", sha256(pairs.now))
    assert status == 2
    assert "damaged or something else" in err
    assert not pairs.cached.exists()
    pairs.now = NEW
    put(pairs.cached.with_name("deu.txt.sha256"), b"\xff nothing of use")
    assert ask("get", "pairs")[0] == 2
    assert ask("get", "pairs", "--sha256", sha256(NEW))[0] == 0


def test_the_users_own_file_is_taken_as_it_is(pairs: SimpleNamespace, ask: Ask) -> None:
    put(pairs.given, NEW)
    assert ask("get", "pairs")[:2] == (0, f"{pairs.given}\n")
    assert ask("check", "pairs")[1].splitlines() == [
        f"pairs: sound: {pairs.given}",
        f"  deu.txt may differ between sources; this one has the SHA-256 {sha256(NEW)}",
    ]
    assert ask("get", "pairs", "--sha256", sha256(NEW))[0] == 0
    status, _, err = ask("get", "pairs", "--sha256", sha256(NEWER))
    assert status == 2
    assert "SEARNN_DATA has another version of pairs" in err
    assert list(pairs.given.parent.iterdir()) == [pairs.given]
    put(pairs.given.parents[1] / "hand" / "deu.txt", NEW)
    assert ask("get", "hand")[0] == ask("check", "hand")[0] == 0
    put(pairs.cached.parents[1] / "hand" / "deu.txt", NEWER)
    pairs.given.parents[1].joinpath("hand", "deu.txt").unlink()
    assert ask("get", "hand")[0] == ask("check", "hand")[0] == 0  # in the cache too, since nobody but the user put it
    assert pairs.asked == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "pairs"), "it belongs to `searnn data get NAME`"),
        (("list",), "it belongs to `searnn data get NAME`"),
        (("get",), "it belongs to `searnn data get NAME`"),
        (("get", "fixed"), "fixed is not fetched, or in the one version known here"),
        (("get", "hand"), "hand is not fetched"),
    ],
)
def test_where_a_version_cannot_be_chosen(ask: Ask, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = ask(*arguments, "--sha256", "0" * 64)
    assert (status, out) == (2, "")
    assert err.startswith("searnn: error: --sha256 does not apply here: ")
    assert message in err


@pytest.mark.parametrize("given", ["", "12", "G" * 64, "A" * 64, "0" * 65])
def test_what_is_no_digest(ask: Ask, given: str) -> None:
    status, _, err = ask("get", "pairs", "--sha256", given)
    assert status == 2
    assert "expected 64 digits of 0 to 9 and a to f" in err
