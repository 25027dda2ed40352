"""Reading CoNLL files: what they hold, and a clear refusal of what is damaged."""

import gzip
import lzma
import os
from pathlib import Path

import pytest

from searnn.data.conll import read_columns
from searnn.types import SearnnError

REAL = Path(os.environ.get("SEARNN_DATA") or "nowhere", "conll2000")
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="SEARNN_DATA does not name a folder with conll2000")

TEXT = "He PRP B-NP\n\n\nsaw VBD B-VP\n5\u00a0000 CD B-NP\ncaf\u00e9s NNS I-NP\n\n"
SENTENCES = [
    [("He", "PRP", "B-NP")],
    [("saw", "VBD", "B-VP"), ("5\u00a0000", "CD", "B-NP"), ("caf\u00e9s", "NNS", "I-NP")],
]


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.rstrip().encode(),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.encode("utf-8-sig"),
        ("\n \n" + TEXT.replace(" ", "  \t") + "\t\n").encode(),
    ],
    ids=["plain", "no last line", "windows", "marked", "wide"],
)
def test_sentences_of_words_of_columns(tmp_path, content):
    plain, packed, smaller = tmp_path / "a.txt", tmp_path / "a.txt.gz", tmp_path / "packed"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    smaller.write_bytes(lzma.compress(content))
    assert [read_columns(path) for path in (plain, packed, smaller)] == [SENTENCES] * 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.txt is empty, expected .*: get"),
        (b"\n \r\n\n", "a.txt is empty"),
        (b"a b\n\nc d\ne\n", "a.txt, line 4: 1 columns, the first line has 2: mend"),
        (b"\na b\nc d e\n", "a.txt, line 3: 3 columns, the first line has 2"),
        (b"a b\nc\xff d\n", "a.txt, line 2 is bad: not UTF-8; mend"),
        (b"a b\nc\0 d\n", "a.txt, line 2 is bad: NUL; mend"),
        ("a b\n".encode("utf-16-le"), "a.txt, line 1 is bad: NUL"),
    ],
)
def test_a_damaged_file_says_where(tmp_path, content, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(SearnnError, match=message) as caught:
        read_columns(path)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there_or_cut_short(tmp_path):
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(SearnnError, match="cannot be read"):
            read_columns(path)
    for name, content in [
        ("b.gz", gzip.compress(TEXT.encode())[:-9]),
        ("c.gz", gzip.compress(TEXT.encode())[:12] + bytes(40)),
        ("b.xz", lzma.compress(TEXT.encode())[:-9]),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(SearnnError, match=f"{name} is damaged or cut short") as caught:
            read_columns(path)
        assert "\n" not in str(caught.value)


@needs_real
def test_the_published_files_of_2000():
    train, test = (read_columns(next(REAL.glob(f"{name}.txt*"))) for name in ("train", "test"))
    assert (len(train), len(test)) == (8936, 2012)
    assert (sum(map(len, train)), sum(map(len, test))) == (211727, 47377)
    tags = {word[2] for sentence in train + test for word in sentence}
    assert len(tags) == 23
    assert {tag[:2] for tag in tags} == {"O", "B-", "I-"}
    assert train[0][:2] == [("Confidence", "NN", "B-NP"), ("in", "IN", "B-PP")]
