"""Lines and pairs of lines against Python's own reading of the same bytes; every kind of bad line by its number."""

import gzip
import lzma
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searnn.data import lines
from searnn.data.lines import BadLines, read_lines, read_pairs
from searnn.tasks.common.text import file_split
from searnn.types import SearnnError

PACKERS = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}


def written(folder: Path, content: bytes, name: str = "train.tsv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def pairs_of(bad: BadLines, *paths: Path) -> list[tuple[int, str, str]]:
    return list(read_pairs(paths, bad))


@pytest.mark.parametrize("form", PACKERS)
@given(texts=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"))), crlf=st.booleans())
@settings(max_examples=30, deadline=None)
def test_lines_come_back_from_every_form(
    tmp_path_factory: pytest.TempPathFactory, form: str, texts: list[str], crlf: bool
) -> None:
    end = b"\r\n" if crlf else b"\n"
    content = b"\xef\xbb\xbf" + b"".join(text.encode() + end for text in texts)
    # The name says nothing: the first bytes do.
    path = written(tmp_path_factory.mktemp("lines"), PACKERS[form](content))
    assert list(read_lines(path)) == [(number, text, "") for number, text in enumerate(texts, 1)]


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (b"", []),
        (b"\xef\xbb\xbf", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\n\r\nb\r", ["a", "", "b\r"]),
        ("x\u2028y\x0bz\n\ufeffw\n".encode(), ["x\u2028y\x0bz", "\ufeffw"]),
    ],
)
def test_where_lines_end(tmp_path: Path, content: bytes, texts: list[str]) -> None:
    assert [text for _, text, _ in read_lines(written(tmp_path, content))] == texts


def test_packed_files_of_several_members(tmp_path: Path) -> None:
    for packer in (gzip.compress, lzma.compress):
        path = written(tmp_path, packer(b"one\ntw") + packer(b"o\nthree\n"))
        assert [text for _, text, _ in read_lines(path)] == ["one", "two", "three"]


def test_bad_lines_have_their_reason_and_the_rest_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, b"good\n\xff\xfe\na\0b\n\xed\xa0\x80\ngood\n")
    assert list(read_lines(path)) == [
        (1, "good", ""),
        (2, None, "not UTF-8"),
        (3, None, "NUL"),
        (4, None, "not UTF-8"),  # half of a surrogate pair
        (5, "good", ""),
    ]


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_the_longest_line(tmp_path: Path, end: bytes, bom: bytes) -> None:
    for extra, reason in ((0, ""), (1, "too long"), (2, "too long"), (7, "too long"), (3 << 20, "too long")):
        content = bom + b"a" * (lines.LONGEST + extra) + end + b"b\n" * bool(end)
        found = [(number, reason) for number, _, reason in read_lines(written(tmp_path, content))]
        assert found == [(1, reason), (2, "")][: 1 + bool(end)]


@pytest.mark.parametrize("form", PACKERS)
def test_a_line_without_end_is_not_held(tmp_path: Path, form: str) -> None:
    path = written(tmp_path, PACKERS[form](b"a" * (48 << 20) + b"\nb\tc\n"))
    tracemalloc.start()
    try:
        found = list(read_lines(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == [(1, None, "too long"), (2, "b\tc", "")]
    assert peak < 16 << 20


def test_one_file_of_pairs(tmp_path: Path) -> None:
    path = written(tmp_path, b" a b \tc\nno\n1\t2\t3\n\tx\ny\t \n\xff\tz\nd\te")
    bad = BadLines(skip=True)
    assert pairs_of(bad, path) == [(1, "a b", "c"), (7, "d", "e")]
    bad.close(2)
    reasons = "1 no tab (line 2), 1 more than one tab (line 3), 1 empty source (line 4), 1 empty target (line 5)"
    assert bad.summary() == f"left out: {path} had 5 bad lines: {reasons}, 1 not UTF-8 (line 6)"


def test_two_files_of_pairs(tmp_path: Path) -> None:
    one = written(tmp_path, b"a\n\nb\nc\n \n", "one")
    two = written(tmp_path, gzip.compress(b"A A\nB\n\xff\nC\tC\n\n"), "two")
    bad = BadLines(skip=True)
    assert pairs_of(bad, one, two) == [(1, "a", "A A")]
    told = f"{one} had 2 bad lines: 2 empty source (lines 2, 5); {two} had 2 bad lines: 1 not UTF-8 (line 3)"
    assert bad.summary() == f"left out: {told}, 1 a tab (line 4)"


@pytest.mark.parametrize(("first", "second"), [(3, 5), (5, 3), (0, 2), (2, 0), (4, 5)])
def test_files_of_different_length_are_refused(tmp_path: Path, first: int, second: int) -> None:
    one, two = written(tmp_path, b"a\n" * first, "one"), written(tmp_path, b"b\n" * second, "two")
    with pytest.raises(SearnnError, match=f"one has {first} lines and .*two has {second}: expected"):
        pairs_of(BadLines(skip=True), one, two)


def test_bad_lines_are_refused_with_counts_and_numbers() -> None:
    bad = BadLines(skip=False)
    for number, reason in ((4, "no tab"), (7, "not UTF-8"), (9, "no tab")):
        bad.note(Path("train.tsv"), number, reason)
    told = "train.tsv has 3 bad lines: 2 no tab (lines 4, 9), 1 not UTF-8 (line 7)"
    with pytest.raises(SearnnError) as refusal:
        bad.close(10)
    assert str(refusal.value) == f"{told}: mend them, or leave them out with --skip-bad-lines"
    assert bad.summary() is None


def test_many_bad_lines_are_counted_but_not_all_named() -> None:
    bad = BadLines(skip=True)
    for number in range(1, 1001):
        bad.note(Path("x"), number, "no tab")
    assert bad.summary() == "left out: x had 1000 bad lines: 1000 no tab (lines 1, 2, 3, 4, 5, ...)"
    bad.close(1)
    with pytest.raises(SearnnError, match="no good line is left: x has 1000 bad lines"):
        bad.close(0)


def test_nothing_bad_is_not_refused() -> None:
    for skip in (False, True):
        bad = BadLines(skip)
        bad.close(3)
        assert bad.summary() is None


@pytest.mark.parametrize("packer", [gzip.compress, lzma.compress])
def test_a_packed_file_that_is_damaged_is_named(tmp_path: Path, packer) -> None:  # type: ignore[no-untyped-def]
    content = packer(bytes(range(1, 256)) * 400 + b"\n")
    middle = bytes([content[len(content) // 2] ^ 255])
    broken = content[: len(content) // 2] + middle + content[len(content) // 2 + 1 :]
    for damaged in (content[:-5], content[: len(content) // 2], broken, content[:8]):
        path = written(tmp_path, damaged)
        with pytest.raises(SearnnError, match=r"train\.tsv is damaged or cut short \(.+\): get it again"):
            list(read_lines(path))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match=r"none\.tsv cannot be read: No such file"):
        list(read_lines(tmp_path / "none.tsv"))
    with pytest.raises(SearnnError, match="cannot be read: Is a directory"):
        list(read_lines(tmp_path))
    for count in (0, 3):
        with pytest.raises(SearnnError, match=f"{count} files were given for pairs of lines: expected one"):
            file_split((tmp_path,) * count)
