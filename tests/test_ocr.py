"""The OCR task on real data where it is at hand and on small files made here; letters given by a user; the toy task."""

import io
import os
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from rapidfuzz.distance import Levenshtein

from searnn.data import letters
from searnn.data.sheets import read_letters, write_sheet
from searnn.interfaces import Task
from searnn.sequences.ends import strip
from searnn.tasks import Copy, Ocr
from searnn.types import SearnnError

REAL = Path(os.environ.get("SEARNN_DATA") or "nowhere", "ocr", "letters.npz")
needs_real = pytest.mark.skipif(not REAL.is_file(), reason="SEARNN_DATA does not name a folder with ocr/letters.npz")
SPLITS = ("train", "valid", "test")
WORDS = ["abc", "zebra", "fig", "kiwi", "ox", "queue", "tar", "moon", "ivy", "jump"]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten words, written twelve times each, fold after fold."""
    words = WORDS * 12
    labels = np.frombuffer("".join(words).encode(), np.uint8) - 97
    pixels = np.random.default_rng(0).integers(0, 256, (len(labels), 16)).astype(np.uint8)
    lengths = np.array([len(word) for word in words], np.uint8)
    folds = (np.arange(120) // 12).astype(np.uint8)
    path = tmp_path_factory.mktemp("ocr") / "letters.npz"
    path.write_bytes(letters.as_npz(letters.Letters(pixels, labels, lengths, folds)))
    return path


def ids(examples) -> set[int]:  # type: ignore[no-untyped-def]
    return set(examples.ids.tolist())


def test_the_fold_is_the_test_set_and_a_tenth_of_the_rest_is_validation(small: Path) -> None:
    for fold in (0, 7):
        task = Ocr(fold=fold, path=small)
        assert isinstance(task, Task)
        assert ids(task.examples("test")) == set(range(12 * fold, 12 * fold + 12))
        assert len(task.examples("valid")) == 10
        assert ids(task.examples("train")) | ids(task.examples("valid")) == set(range(120)) - ids(task.examples("test"))
        assert not ids(task.examples("train")) & ids(task.examples("valid"))
    again = Ocr(fold=7, path=small)
    assert ids(again.examples("valid")) == ids(task.examples("valid"))
    assert ids(Ocr(fold=7, seed=1, path=small).examples("valid")) != ids(task.examples("valid"))
    seen = {i for step in range(30) for i in task.train(16, seed=3).batch(step).ids or ()}
    assert seen == ids(task.examples("train"))


def test_the_split_by_words_shares_no_word(small: Path) -> None:
    tested: list[str] = []
    for fold in range(5):
        task = Ocr(fold=fold, split="words", path=small)
        words = task.words()
        groups = [{words[i] for i in ids(part)} for part in map(task.examples, SPLITS)]
        assert [len(group) for group in groups] == [7, 1, 2]
        assert set().union(*groups) == set(WORDS)
        assert len(task.examples("train")) + len(task.examples("valid")) + len(task.examples("test")) == 120
        tested += groups[2]
    assert sorted(tested) == sorted(WORDS)


def test_batches_hold_the_pixels_and_letters_of_the_file(small: Path) -> None:
    task = Ocr(path=small)
    with np.load(small) as archive:
        pixels, lengths = np.unpackbits(archive["pixels_packed"], axis=1), archive["word_lengths"].astype(int)
    starts = np.r_[0, lengths.cumsum()]
    seen = []
    for batch in task.test(5):
        assert batch.inputs.values.dtype == torch.float32
        for row, word in enumerate(batch.ids or ()):
            size = lengths[word]
            np.testing.assert_array_equal(batch.inputs.values[row, :size], pixels[starts[word] : starts[word + 1]])
            assert task.show(batch.targets[row].tolist()) == (WORDS * 12)[word]
            assert batch.lengths[row] == size
            seen.append(word)
    assert sorted(seen) == list(range(12))
    assert sorted(word for batch in task.valid(3) for word in batch.ids or ()) == sorted(ids(task.examples("valid")))


def test_metrics_by_hand(small: Path) -> None:
    task = Ocr(path=small)
    found = task.metrics([[0, 1, 2], [3, 4], [5]], [[0, 9, 2], [3, 4], [5, 6]])
    assert found == {"error": 2 / 7, "word_error": 2 / 3}
    assert task.metrics([[1]], [[1]])[task.metric] == 0.0
    assert task.show([2, 0, 19]) == "cat"
    with pytest.raises(SearnnError, match="1 outputs for 2 targets"):
        task.metrics([[1]], [[1], [2]])
    with pytest.raises(SearnnError, match="0 outputs for 0 targets"):
        task.metrics([], [])


@pytest.mark.usefixtures("as_users_call")
def test_settings_that_are_refused(small: Path, tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match="fold is 10, it must be a whole number of at least 0 and at most 9"):
        Ocr(fold=10, path=small)
    with pytest.raises(SearnnError, match="fold is 5, expected 0 to 4 with split 'words'"):
        Ocr(fold=5, split="words", path=small)
    with pytest.raises(SearnnError, match="split is 'random', it must be fold or words"):
        Ocr(split="random", path=small)
    with pytest.raises(SearnnError, match="batch size is 99, expected 1 to 98"):
        Ocr(path=small).train(99, seed=0)
    for name, message in (("letters.npz", "cannot be read: No such file"), ("letters.txt", "is no file of letters")):
        with pytest.raises(SearnnError, match=message):
            Ocr(path=tmp_path / name)
    with np.load(small) as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "short.npz", **{**arrays, "labels": arrays["labels"][1:]})
    with pytest.raises(SearnnError, match=r"short.npz: labels holds .*: a letter is missing; give a complete file"):
        Ocr(path=tmp_path / "short.npz")
    np.savez(tmp_path / "other.npz", **{**arrays, "folds": arrays["folds"] * 0})
    with pytest.raises(SearnnError, match=r"no words are left for test .* fold 3"):
        Ocr(fold=3, path=tmp_path / "other.npz")


@needs_real
def test_the_real_words_are_few_and_all_in_training() -> None:
    for fold in range(10):
        task = Ocr(fold=fold, path=REAL)
        words = task.words()
        training, test = ({words[i] for i in ids(part)} for part in map(task.examples, ("train", "test")))
        assert len(training) == 55
        assert test <= training
    assert len(words) == 6877
    assert sum(len(word) for word in words) == 52152
    assert {min(map(len, words)), max(map(len, words))} == {3, 14}
    assert Counter(words)["mitted"] == 71


@needs_real
def test_the_real_splits() -> None:
    task = Ocr()
    assert [len(task.examples(split)) for split in SPLITS] == [5626, 625, 626]
    assert int(task.examples("test").targets.lengths.sum()) == 4617
    assert task.train(64, seed=0).steps_per_epoch == 87
    by_word = Ocr(split="words")
    words = by_word.words()
    groups = [{words[i] for i in ids(part)} for part in map(by_word.examples, SPLITS)]
    assert [len(group) for group in groups] == [38, 6, 11]
    assert not groups[0] & groups[1]
    assert not (groups[0] | groups[1]) & groups[2]
    assert set("".join(groups[2])) - set("".join(groups[0])) == {"q"}


def a_few(seed: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    words = [(draw.random((size, 128)) < 0.2).astype(np.float32) for size in (3, 1, 5)]
    assert all(word.any(axis=1).all() for word in words)
    return words


def same(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert [word.shape for word in found] == [word.shape for word in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_array_equal(one, other)


def test_a_sheet_is_read_as_it_was_written(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "sheet.png"
    write_sheet(a_few(), path)
    same(read_letters(path), a_few())
    with image.open(path) as picture:
        assert picture.size == (40, 48)
        shades = np.asarray(picture)
    assert shades[16 + 2, 5] == 255 - 255 * a_few()[1][0].reshape(16, 8)[2, 5]  # row 2, tile 1
    clear = np.stack([np.zeros_like(shades)] * 3 + [255 - shades], axis=-1)  # black ink, the paper transparent
    variants = {"white.png": 255 - shades, "grey.png": np.where(shades == 0, 90, 160), "clear.png": clear}
    for name, pixels in variants.items():
        image.fromarray(pixels.astype(np.uint8)).save(tmp_path / name)
        same(read_letters(tmp_path / name), a_few())
    image.fromarray(np.pad(shades, ((16, 16), (0, 8)), constant_values=255)).convert("P").save(tmp_path / "wide.PNG")
    same(read_letters(tmp_path / "wide.PNG"), a_few())


def test_sheets_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "sheet.png"
    for size, message in (((41, 48), "is 41 wide and 48 high"), ((40, 47), "is 40 wide and 47 high")):
        image.new("L", size, 255).save(path)
        with pytest.raises(SearnnError, match=message):
            read_letters(path)
    image.new("L", (40, 48), 255).save(path)
    with pytest.raises(SearnnError, match="every tile is blank"):
        read_letters(path)
    word = a_few()[2].copy()
    word[3] = 0
    write_sheet([a_few()[0], word], path)
    with pytest.raises(SearnnError, match="tile 4 of row 2 is blank, letters follow"):
        read_letters(path)
    image.fromarray(np.full((16, 8), 40_000, np.uint16)).save(path)
    with pytest.raises(SearnnError, match="16 bits per pixel"):
        read_letters(path)
    write_sheet(a_few(), path)
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(SearnnError, match="cannot be read as a PNG"):
        read_letters(path)
    with pytest.raises(SearnnError, match=r"expected an .npz or a .png"):
        read_letters(tmp_path / "sheet.jpg")
    with pytest.raises(SearnnError, match="is not there"):
        read_letters(tmp_path / "absent.png")
    with pytest.raises(SearnnError, match="at least one word"):
        write_sheet([], path)
    with pytest.raises(SearnnError, match="cannot be written"):
        write_sheet(a_few(), tmp_path / "absent" / "sheet.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(SearnnError, match=r"needs Pillow: .*searnn\[plots\]"):
        read_letters(path)


def test_letters_from_a_stream(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    write_sheet(a_few(), tmp_path / "letters")
    with (tmp_path / "letters").open("rb") as stream:
        same(read_letters(stream), a_few())
    np.savez(tmp_path / "letters.npz", pixels=np.concatenate(a_few()), word_lengths=np.array([3, 1, 5]))
    same(read_letters(io.BytesIO((tmp_path / "letters.npz").read_bytes())), a_few())
    for content, message in ((b"", "^here is empty"), (b"GIF89a", "^here is neither an .npz nor a PNG")):
        with pytest.raises(SearnnError, match=message):
            read_letters(io.BytesIO(content), "here")


def test_letters_from_arrays(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    flat = np.concatenate(a_few())
    forms = [
        {"pixels": flat},
        {"pixels": flat.reshape(-1, 16, 8).astype(bool)},
        {"pixels": flat.astype(np.int64)},
        {"pixels_packed": np.packbits(flat.astype(np.uint8), axis=1)},
    ]
    for form in forms:
        np.savez(path, **form, word_lengths=np.array([3, 1, 5]))
        same(read_letters(path), a_few())
        np.savez(path, **form)
        same(read_letters(str(path)), [flat])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": np.zeros((2, 16, 8))}, "has the arrays images, expected 'pixels'"),
        ({"pixels": np.zeros((2, 8, 16))}, r"pixels is \[2, 8, 16\], expected \[N, 16, 8\]"),
        ({"pixels": np.zeros((0, 128))}, r"pixels is \[0, 128\]"),
        ({"pixels": np.full((2, 128), 255)}, "from 0 .* to 1 .*, got 255 to 255"),
        ({"pixels": np.full((2, 128), np.nan)}, "from 0 .* to 1 .*, got nan"),
        ({"pixels": np.full((2, 128), "x")}, "pixels holds <U1, expected plain numbers"),
        ({"pixels": np.array([[print] * 128], dtype=object)}, "pixels holds Python objects, expected plain numbers"),
        ({"pixels_packed": np.zeros((2, 16))}, "pixels_packed is float64"),
        ({"pixels": np.zeros((2, 128)), "word_lengths": np.array([1, 2])}, "adds up to 3, .* the 2 letters"),
        ({"pixels": np.zeros((2, 128)), "word_lengths": np.array([2, 0])}, "positive integers"),
        ({"pixels": np.zeros((2, 128)), "word_lengths": np.array([2.0])}, "word_lengths is float64"),
    ],
)
def test_arrays_that_are_refused(tmp_path: Path, arrays: dict[str, np.ndarray], message: str) -> None:
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(SearnnError, match=message):
        read_letters(tmp_path / "mine.npz")


def test_a_cut_npz_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", pixels=np.zeros((2, 128)))
    content = (tmp_path / "mine.npz").read_bytes()
    for cut in (content[:-40], content[:100], b""):
        (tmp_path / "mine.npz").write_bytes(cut)
        with pytest.raises(SearnnError, match=r"mine.npz is damaged or cut short"):
            read_letters(tmp_path / "mine.npz")


@pytest.mark.parametrize("reverse", [False, True])
def test_the_toy_task_copies_or_reverses(reverse: bool) -> None:
    task = Copy(symbols=7, length=5, examples=95, seed=4, reverse=reverse)
    assert isinstance(task, Task)
    assert task.name == ("reverse" if reverse else "copy")
    assert [len(task.examples(split)) for split in SPLITS] == [95, 10, 10]
    sizes = Counter()
    for batch in (*task.valid(4), *task.test(4), *(task.train(19, seed=0).batch(step) for step in range(5))):
        assert batch.targets.shape[1] == 7
        assert set(batch.limits()) == {7}
        targets = strip(batch.targets, task.vocab)
        for source, size, target, raw in zip(*batch.inputs, targets, batch.targets.tolist(), strict=True):
            symbols = source[: int(size)].tolist()
            assert target == (symbols[::-1] if reverse else symbols)
            assert raw[len(target)] == task.vocab.eos
            sizes[len(target)] += 1
    assert set(sizes) == {1, 2, 3, 4, 5}
    again = Copy(symbols=7, length=5, examples=95, seed=4, reverse=reverse)
    assert torch.equal(again.examples("train").sources.values, task.examples("train").sources.values)
    other = Copy(symbols=7, length=5, examples=95, seed=5, reverse=reverse).examples("train").sources.values
    assert other.tolist() != task.examples("train").sources.values.tolist()


def test_the_toy_error_is_edit_distance_over_length() -> None:
    task, draw = Copy(symbols=3, length=6, examples=10), np.random.default_rng(0)
    outputs, targets = ([draw.integers(0, 3, draw.integers(0, 7)).tolist() for _ in range(50)] for _ in range(2))
    distance = sum(Levenshtein.distance(one, other) for one, other in zip(outputs, targets, strict=True))
    assert [] in targets
    expected = distance / sum(max(1, len(target)) for target in targets)
    assert task.metrics(outputs, targets) == {"error": pytest.approx(expected)}
    assert task.metrics([[]], [[]]) == {"error": 0.0}
    assert task.show([2, 0]) == "2 0"
    with pytest.raises(SearnnError, match="0 outputs for 1 targets"):
        task.metrics([], [[1]])
    for name in ("symbols", "length", "examples"):
        with pytest.raises(SearnnError, match=f"{name} is 0, it must be a whole number of at least 1"):
            Copy(**{name: 0})
