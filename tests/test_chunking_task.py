"""Chunking: what a word is read as, the split, known lengths, and metrics equal to those of seqeval."""

from __future__ import annotations

import os
import random
import warnings
from pathlib import Path

import pytest
import torch
from seqeval import metrics as seqeval
from tiny_data import TAGS, Tagged, conll_files, tagged, write_tagged

from searnn.sequences.ends import strip
from searnn.tasks.chunking import Chunking
from searnn.types import Batch, SearnnError

REAL = Path(os.environ.get("SEARNN_DATA") or "nowhere", "conll2000")
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="SEARNN_DATA does not name a folder with conll2000")


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chunking:
    monkeypatch.setenv("SEARNN_DATA", str(conll_files(tmp_path)))
    return Chunking()


def epoch(task: Chunking, size: int = 1) -> list[Batch]:
    data = task.train(size, 0)
    return [data.batch(step) for step in range(data.steps_per_epoch)]


def columns(word: tuple[str, ...]) -> list[str]:
    """What a word is read as, spelt out."""
    shape = ""
    for letter in word[0]:
        kind = "X" if letter.isupper() else "x" if letter.islower() else "9" if letter.isdigit() else "."
        shape += kind if not shape.endswith(kind) else ""
    low = word[0].lower()
    return [f"word={low}", f"pos={word[1]}", f"end={low[-3:]}", f"shape={shape}"]


def read_back(task: Chunking, batches: list[Batch]) -> list[tuple[list[list[str]], list[str]]]:
    """Each example as the units of its words and its tags."""
    found = []
    for batch in batches:
        assert batch.lengths.tolist() == batch.inputs.lengths.tolist() == list(batch.limits())  # the lengths are known
        for row, tags in enumerate(strip(batch.targets, task.vocab)):
            length = int(batch.inputs.lengths[row])
            assert len(tags) == length
            values = batch.inputs.values[row, :length].tolist()
            found.append(([[task.source.units[token] for token in word] for word in values], task.units(tags)))
    return found


def test_words_are_read_as_four_columns(task: Chunking) -> None:
    assert task.vocab.eos is None
    assert task.tags == tuple(sorted(TAGS))
    parts = [read_back(task, batches) for batches in (epoch(task), list(task.valid(4)), list(task.test(4)))]
    assert [len(part) for part in parts] == [27, 3, 8]
    assert task.source_size == len(task.source.units)

    def expected(rows: list[Tagged]) -> list[tuple[list[list[str]], list[str]]]:
        known = task.source.ids
        read = [[[unit if unit in known else "<unk>" for unit in columns(word)] for word in row] for row in rows]
        return list(zip(read, ([word[2] for word in row] for row in rows), strict=True))

    assert sorted(map(str, parts[0] + parts[1])) == sorted(map(str, expected(tagged(30, 0))))
    assert sorted(map(str, parts[2])) == sorted(map(str, expected(tagged(8, 1))))


def test_columns_share_no_token_and_rare_units_are_unknown(tmp_path: Path) -> None:
    rows: list[Tagged] = [[("NN", "NN", "O"), ("nn", "VB", "B-NP")], [("once", "NN", "O"), ("x", "VB", "O")]]
    train = write_tagged(tmp_path / "train.txt", rows)
    task = Chunking(train=[train], valid=[train])
    assert set(task.source.units) == {"<unk>", "word=nn", "end=nn", "pos=NN", "pos=VB", "shape=x"}
    values = task.read("NN/NN once/NN other/JJ").tolist()
    units = [[task.source.units[token] for token in word] for word in values]
    assert units == [
        ["word=nn", "pos=NN", "end=nn", "<unk>"], ["<unk>", "pos=NN", "<unk>", "shape=x"], ["<unk>"] * 3 + ["shape=x"]
    ]  # fmt: skip


def test_validation_is_a_seeded_tenth(tmp_path: Path) -> None:
    rows: list[Tagged] = [[(f"w{number}", "N", "O")] * (number + 1) for number in range(40)]
    train = write_tagged(tmp_path / "train.txt", rows)
    lengths = []
    for seed in (0, 0, 1):
        task = Chunking(train=[train], seed=seed)
        train_lengths = [int(batch.lengths) for batch in epoch(task)]
        valid_lengths = [int(batch.lengths) for batch in task.valid(1)]
        assert sorted(train_lengths + valid_lengths) == list(range(1, 41))
        assert len(valid_lengths) == 4
        lengths.append(valid_lengths)
    assert lengths[0] == lengths[1] != lengths[2]
    with pytest.raises(SearnnError, match="there is no test data: give a file with --test"):
        task.test(2)
    task = Chunking(train=[train], valid=[train], test=[train])
    task.load()
    assert [len(task.examples(part)) for part in ("train", "valid", "test")] == [40, 40, 40]


@pytest.mark.parametrize("seed", range(6))
def test_metrics_are_those_of_seqeval(task: Chunking, seed: int) -> None:
    draw = random.Random(seed)
    count = len(task.tags)
    targets = [[draw.randrange(count) for _ in range(draw.randint(1, 12))] for _ in range(12)]
    outputs = [[tag if draw.random() < seed / 5 else draw.randrange(count) for tag in row] for row in targets]
    truth, found = ([[task.tags[tag] for tag in row] for row in side] for side in (targets, outputs))
    expected = {
        "f1": seqeval.f1_score(truth, found),
        "precision": seqeval.precision_score(truth, found),
        "recall": seqeval.recall_score(truth, found),
        "accuracy": seqeval.accuracy_score(truth, found),
    }
    assert task.metrics(outputs, targets) == pytest.approx(expected)


def test_no_chunk_at_all(task: Chunking) -> None:
    outside = task.tags.index("O")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing can be divided by
        expected = seqeval.f1_score([["O", "O"]], [["O", "O"]])
    found = task.metrics([[outside] * 2], [[outside] * 2])
    assert found == {"f1": expected, "precision": 0, "recall": 0, "accuracy": 1}
    with pytest.raises(SearnnError, match="0 outputs for 0 targets"):
        task.metrics([], [])


def test_tags_of_the_test_data_are_counted_too(tmp_path: Path) -> None:
    train = write_tagged(tmp_path / "train.txt", [[("a", "N", "B-NP")]] * 4)
    other = write_tagged(tmp_path / "test.txt", [[("a", "N", "B-UCP")]])
    task = Chunking(train=[train], valid=[train], test=[other])
    assert task.tags == ("B-NP", "B-UCP", "O")
    task.save(tmp_path / "text")
    write_tagged(other, [[("a", "N", "B-NEW")]])
    again = Chunking(train=[train], valid=[train], test=[other], text=tmp_path / "text")
    with pytest.raises(SearnnError, match="the test data has the tag 'B-NEW', unknown to the model"):
        again.load()


def test_what_was_saved_needs_no_data(task: Chunking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task.save(tmp_path / "run" / "text")
    monkeypatch.setenv("SEARNN_DATA", str(tmp_path / "run"))
    again = Chunking(text=tmp_path / "run" / "text")
    assert (again.source, again.target, again.vocab) == (task.source, task.target, task.vocab)
    assert torch.equal(again.read("The/D cats/N"), task.read("The/D cats/N"))


def test_sentences_to_predict_from(task: Chunking) -> None:
    read = task.read("  The/D 1/2/N  cats/V ")
    words = (("The", "D"), ("1/2", "N"), ("cats", "V"))
    assert read.tolist() == [[task.source.ids.get(unit, 0) for unit in columns(word)] for word in words]
    assert task.show([0, task.tags.index("O")]) == "B-NP O"
    for line in ("", "  ", "The cats/N", "/N", "The/", "a/N b"):
        with pytest.raises(SearnnError, match="expected words with their parts of speech, as in The/DT"):
            task.read(line)


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    train = write_tagged(tmp_path / "train.txt", tagged(5, 0))
    with pytest.raises(SearnnError, match="without --train"):
        Chunking(test=[train])
    (tmp_path / "two.txt").write_text("a N\nb N\n")
    with pytest.raises(SearnnError, match=r"two\.txt has 2 columns, expected word, part of speech and chunk tag"):
        Chunking(train=[tmp_path / "two.txt"])
    with pytest.raises(SearnnError, match="one sentence in all: give more"):
        Chunking(train=[write_tagged(tmp_path / "one.txt", tagged(1, 0))])
    with pytest.raises(SearnnError, match=r"none\.txt cannot be read"):
        Chunking(train=[train], valid=[tmp_path / "none.txt"])
    with pytest.raises(SearnnError, match="the tag 'X-NP'"):
        Chunking(train=[write_tagged(tmp_path / "odd.txt", [[("a", "N", "X-NP")]] * 3)])


@needs_real
@pytest.mark.slow
def test_the_real_data() -> None:
    task = Chunking()
    assert len(task.tags) == 23
    assert [len(task.examples(part)) for part in ("train", "valid", "test")] == [8043, 893, 2012]
    targets = [tags for batch in task.test(500) for tags in strip(batch.targets, task.vocab)]
    assert task.metrics(targets, targets) == {"f1": 1, "precision": 1, "recall": 1, "accuracy": 1}
