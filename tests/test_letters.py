"""Reading the forms that letters come in: the same content from each, and a clear refusal of what is damaged."""

import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from made_letters import as_pickle, as_text, npz, small

from searnn.data import letters
from searnn.types import SearnnError


@pytest.mark.parametrize("parse", [letters.parse_text, letters.parse_pickle])
def test_other_forms_give_the_same_content(parse) -> None:  # type: ignore[no-untyped-def]
    content = as_text(small()) if parse is letters.parse_text else as_pickle(small())
    found = parse(content, "here")
    assert letters.fingerprint(found) == letters.fingerprint(small())
    np.testing.assert_array_equal(found.word_lengths, small().word_lengths)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1\tx\t2", "1\tÉ\t2", "line 1: no letter's id"),
        ("1\tx\t2", "1\tX\t2", "line 1: the letter is b'X'"),
        ("1\tx\t2", "one\tx\t2", "line 1: no letter's id"),
        ("\t1\t0\t1\t0", "\t1\t0\t2\t0", "line 1: 128 pixels, expected 128 of 0 or 1"),
        ("\t1\t0\t1\t0", "\t1\t0", "line 1: 126 pixels"),
        ("\t-1\t", "\t3\t", "ends inside a word, after 2 letters"),
        ("-1\t1\t2\t3", "-1\t1\t2\t4", "line 2: fold 4 inside a word of fold 3"),
        ("2\t1\t1\t3", "-1\t1\t1\t33", "folds holds 33, expected 0 to 9"),
        ("2\ty", "3\ty", "line 2: letter 2 should follow, got 3: a letter is missing"),
    ],
)
def test_a_damaged_text_says_where(old: str, new: str, message: str) -> None:
    pixels = "1\t0\t1\t0\t" * 32
    text = f"1\tx\t2\t1\t1\t3\t{pixels}\n2\ty\t-1\t1\t2\t3\t{pixels}\n"
    assert letters.parse_text(text.encode(), "here").labels.tolist() == [23, 24]
    with pytest.raises(SearnnError, match=message):
        letters.parse_text(text.replace(old, new, 1).encode(), "here")


def test_a_text_with_a_line_missing_or_cut_short() -> None:
    packed = gzip.compress(as_text(small()))
    lines = as_text(small()).splitlines(keepends=True)
    first = int(np.argmax(small().word_lengths > 1))
    inside = int(small().word_lengths[:first].sum())
    with pytest.raises(SearnnError, match="a letter is missing"):
        letters.parse_text(b"".join(lines[: inside + 1] + lines[inside + 2 :]), "here")
    with pytest.raises(SearnnError, match="here is damaged or cut short"):
        letters.parse_text(packed[:-100], "here")
    with pytest.raises(SearnnError, match="ends inside a word, after 0 letters"):
        letters.parse_text(b"", "here")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": small().labels[1:]}, "labels holds .* word_lengths ask for .*: a letter is missing"),
        ({"pixels_packed": small().pixels_packed[1:]}, "pixels_packed holds .*: a letter is missing"),
        ({"labels": np.append(small().labels, 3)}, "there are too many"),
        ({"labels": small().labels + 26}, "labels holds .*, expected 0 to 25"),
        ({"labels": small().labels.astype(int) - 26}, "labels holds -.*, expected 0 to 25"),
        ({"folds": small().folds + 1}, "folds holds 10, expected 0 to 9"),
        ({"folds": small().folds[1:]}, "folds has 19 entries for 20 words"),
        ({"labels": small().labels.astype(float)}, "labels is float64"),
        ({"pixels_packed": small().pixels_packed[:, 1:]}, r"expected uint8 \[N, 16\]"),
        ({"word_lengths": small().word_lengths * 0}, "words of 1 to 255 letters"),
        ({"labels": None}, "has no array 'labels'"),
        ({"labels": np.array([print], dtype=object)}, "labels holds Python objects, expected plain numbers"),
    ],
)
def test_arrays_that_do_not_hold_together(change: dict[str, np.ndarray | None], message: str) -> None:
    arrays = {name: array for name, array in {**vars(small()), **change}.items() if array is not None}
    with pytest.raises(SearnnError, match=message):
        letters.parse_npz(npz(**arrays), "here")


class Malice:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_can_run_nothing(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "run"
    content = pickle.dumps({"data": [Malice(mark)]}, protocol=protocol)
    with pytest.raises(SearnnError, match=r"asks for .*system: only numpy arrays are admitted"):
        letters.parse_pickle(content, "here")
    assert not mark.exists()
    pickle.loads(content)
    assert mark.exists()  # the content really was malicious


@pytest.mark.parametrize("content", [b"cnumpy\nload\n.", b"cnumpy\nndarray.tofile\n.", b"cbuiltins\neval\n."])
def test_a_pickle_gets_no_other_name(content: bytes) -> None:
    with pytest.raises(SearnnError, match="only numpy arrays are admitted"):
        letters.parse_pickle(content, "here")


def test_a_pickle_of_something_else() -> None:
    for content in (b"", as_pickle(small())[:-50]):
        with pytest.raises(SearnnError, match="damaged or cut short"):
            letters.parse_pickle(content, "here")
    for other in ([1], {"data": []}, {"data": 1, "labels": 2, "folds": 3}):
        with pytest.raises(SearnnError, match="does not hold the words"):
            letters.parse_pickle(pickle.dumps(other), "here")
