"""Pairs, translation and pronunciation on tiny files: what is read, split and measured, against plain loops."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from naive import edit
from tiny_data import data_folder, sentences, tiny_data, write_lines

from searnn.data.room import Room
from searnn.sequences.ends import strip
from searnn.tasks.common.text import TextTask
from searnn.tasks.pairs import Pairs
from searnn.tasks.pronunciation import Pronunciation
from searnn.tasks.translation import Translation, tokenise
from searnn.types import Batch, SearnnError

Files = dict[str, list[Path]]
PIECES = 24  # that any version of the trainer finds in each side of the files; the characters alone need 23


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return data_folder(tmp_path / "data", monkeypatch)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    parts = {"train": 24, "valid": 7, "test": 5}
    return {name: [write_lines(tmp_path / f"{name}.tsv", map("\t".join, sentences(n, n)))] for name, n in parts.items()}


def texts(task: TextTask, batches: Iterable[Batch]) -> dict[int, tuple[str, str]]:
    """The pairs of batches as text, by their ids."""
    found: dict[int, tuple[str, str]] = {}
    for batch in batches:
        assert batch.ids is not None
        for row, number in enumerate(batch.ids):
            assert number not in found
            source = batch.inputs.values[row, : batch.inputs.lengths[row]].tolist()
            found[number] = (task.source.decode(source), task.show(strip(batch.targets[row : row + 1], task.vocab)[0]))
    return found


def epoch(task: TextTask, number: int = 0, size: int = 4, seed: int = 0) -> list[Batch]:
    data = task.train(size, seed)
    return [data.batch(number * data.steps_per_epoch + step) for step in range(data.steps_per_epoch)]


def parts_of(task: TextTask) -> list[dict[int, tuple[str, str]]]:
    return [texts(task, batches) for batches in (epoch(task, size=1), task.valid(9), task.test(9))]


@pytest.mark.parametrize("level", ["chars", "words", "sentencepiece"])
def test_batches_hold_the_text_of_the_files(files: Files, level: str) -> None:
    task = Pairs(**files, level=level, pieces=PIECES)
    for name, batches in (("train", epoch(task)), ("valid", task.valid(3)), ("test", task.test(2))):
        expected = dict(enumerate((tuple(line.split("\t")) for line in files[name][0].read_text().splitlines()), 1))
        assert texts(task, batches) == expected
    assert level != "sentencepiece" or task.source.size == task.target.size == PIECES
    for lexicon, side in ((task.source, 0), (task.target, 1)) if level != "sentencepiece" else ():
        split = str.split if level == "words" else list
        counts = Counter(unit for pair in sentences(24, 24) for unit in split(pair[side]))
        assert lexicon.units == ("<unk>", *sorted(counts, key=lambda unit: (-counts[unit], unit)))


def test_every_pair_once_an_epoch_in_another_order(files: Files) -> None:
    task = Pairs(**files)
    orders = [[batch.ids for batch in epoch(task, number)] for number in (0, 1)]
    assert orders[0] != orders[1]
    for order in orders:
        assert sorted(number for ids in order if ids for number in ids) == list(range(1, 25))
    assert [batch.ids for batch in epoch(Pairs(**files), 1)] == orders[1]
    assert [batch.ids for batch in epoch(task, 0, seed=1)] != orders[0]
    widths = [batch.inputs.lengths for batch in epoch(task)]
    assert sum(int(width.max() - width.min()) for width in widths) <= int(task.examples("train").sources.lengths.max())


def test_levels_and_limits_of_the_vocabulary(files: Files) -> None:
    task = Pairs(**files, level="chars", target_level="words", min_count=3, max_vocab=5)
    counts = [Counter(), Counter(word for _, line in sentences(24, 24) for word in line.split())]
    counts[0].update(letter for line, _ in sentences(24, 24) for letter in line)
    for lexicon, count in zip((task.source, task.target), counts, strict=True):
        often = sorted((unit for unit in count if count[unit] >= 3), key=lambda unit: (-count[unit], unit))
        assert lexicon.units == ("<unk>", *often[:4])
    assert (task.source.level, task.target.level) == ("chars", "words")
    assert (task.source_size, task.vocab.size) == (5, 6)


def test_room_is_that_of_the_training_pairs(tmp_path: Path) -> None:
    train = write_lines(tmp_path / "train.tsv", ["ab\t" + "x" * 10] * 199 + ["ab\t" + "x" * 100])
    valid = write_lines(tmp_path / "valid.tsv", ["a\txx", "abab\t" + "x" * 60])
    task = Pairs([train], [valid])
    assert task.room == Room(3.0, 5)  # ten and EOS are six more than five, over two units
    assert task.cells(torch.tensor([1, 4])).tolist() == [8, 17]
    assert [(batch.ids, *batch.limits()) for batch in task.valid(1)] == [((1,), 8), ((2,), 17)]
    assert sorted(task.examples("train").limits.tolist())[-2:] == [11, 101]  # in training a long one is learned whole


def test_metrics_are_those_of_the_text(files: Files) -> None:
    task = Pairs(**files, level="words", metric="bleu")
    draw = random.Random(0)
    targets = [draw.choices(range(1, task.target.size), k=draw.randint(4, 9)) for _ in range(20)]
    outputs = [[t if draw.random() < 0.8 else 1 for t in row] for row in targets]
    found = task.metrics(outputs, targets)
    wrong = sum(edit(output, target) for output, target in zip(outputs, targets, strict=True))
    assert found["error"] == pytest.approx(wrong / sum(map(len, targets)))
    assert found["sequence_error"] == sum(map(list.__ne__, outputs, targets)) / 20
    lines = [[" ".join(task.target.units[t] for t in row) for row in side] for side in (outputs, targets)]
    expected = sacrebleu.corpus_bleu(lines[0], [lines[1]], tokenize="none", force=True)
    assert found["bleu"] == pytest.approx(expected.score)
    assert (task.higher_is_better, task.signature is not None) == (True, True)
    assert task.metrics(targets, targets) == {"error": 0, "sequence_error": 0, "bleu": pytest.approx(100)}


@pytest.mark.parametrize("level", ["words", "sentencepiece", "chars"])
def test_an_unknown_word_of_the_truth_is_never_right(files: Files, level: str) -> None:
    task = Pairs(**files, level=level, pieces=PIECES)
    target = task.target.encode("the dog \u4e16 the cat runs .")
    assert target.count(task.target.unknown) == 1
    found = task.metrics([target], [target])
    assert found["error"] == pytest.approx(1 / len(target))
    assert found["sequence_error"] == 1
    if level != "chars":
        lines = ["the dog ? the cat runs .", "the dog ! the cat runs ."]
        expected = sacrebleu.corpus_bleu(lines[:1], [lines[1:]], tokenize="none", force=True).score
        assert found["bleu"] == pytest.approx(expected)


def test_the_users_own_measure(files: Files) -> None:
    seen: list[Any] = []

    def measure(output: list[str], target: list[str]) -> int:
        seen.append((output, target))
        return abs(len(output) - len(target))

    task = Pairs(**files, level="words", measure=measure)
    assert (task.metric, task.higher_is_better) == ("cost", False)
    found = task.metrics([[1, 2], []], [[1], [2, 1, 1]])
    assert found["cost"] == 2
    one, two = task.target.units[1:3]
    assert seen == [([one, two], [one]), ([], [two, one, one])]


@pytest.mark.usefixtures("as_users_call")
def test_no_such_metric_corpus_or_direction(files: Files) -> None:
    known = "wer, per, error, sequence_error, exact, bleu, chrf or package.module:function"
    with pytest.raises(SearnnError, match=f"the metric of pairs is 'f1', expected {known}"):
        Pairs(**files, metric="f1")
    for settings in ({"corpus": "news"}, {"direction": "fr-en"}):
        with pytest.raises(SearnnError, match=r"'news', it must be multi30k|'fr-en', it must be de-en or en-de"):
            Translation(**settings)


@pytest.mark.parametrize("level", ["chars", "words", "sentencepiece"])
def test_what_was_saved_needs_no_data(files: Files, level: str, tmp_path: Path) -> None:
    task = Pairs(**files, level=level, pieces=PIECES)
    folder = tmp_path / "run" / "text"
    task.save(folder)
    for paths in files.values():
        paths[0].unlink()
    again = Pairs(**files, level=level, pieces=PIECES, text=folder)
    assert (again.source, again.target, again.room) == (task.source, task.target, task.room)
    assert again.read("der hund") == task.source.encode("der hund")
    with pytest.raises(SearnnError, match=r"train\.tsv cannot be read: No such file"):
        again.train(4, 0)
    (folder / "room.json").unlink()
    with pytest.raises(SearnnError, match=r"room\.json cannot be read \(No such file"):
        Pairs(**files, text=folder)


def test_bad_lines_are_refused_or_left_out_with_a_note(files: Files, tmp_path: Path) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_bytes(b"a\tb\nno tab\n\xff\tb\nc\0\td\n\tx\na\tb\tc\n" + b"a" * 91 + b"\tb\ne\tf\n")
    reasons = ("no tab", "not UTF-8", "NUL", "empty source", "more than one tab", "longer than 90")
    told = "6 bad lines: " + ", ".join(f"1 {reason} (line {number})" for number, reason in enumerate(reasons, 2))
    for part in ("train", "valid", "test"):
        given = {**files, part: [bad]}
        with pytest.raises(SearnnError) as caught:
            Pairs(**given, max_length=90).load()
        assert str(caught.value) == f"{bad} has {told}: mend them, or leave them out with --skip-bad-lines"
        task = Pairs(**given, max_length=90, skip_bad_lines=True)
        task.load()
        assert task.examples(part).ids.tolist() == [1, 8]
        assert task.notes == [f"left out: {bad} had {told}"]


def test_a_file_without_a_good_line_says_what_is_wrong_with_it(files: Files, tmp_path: Path) -> None:
    spaces = write_lines(tmp_path / "spaces.txt", ["a b", "c d"])
    with pytest.raises(SearnnError, match=r"no good line is left: .*spaces\.txt has 2 .* no tab \(lines 1, 2\)"):
        Pairs([spaces], files["valid"])
    with pytest.raises(SearnnError, match=r"empty\.tsv holds no lines"):
        Pairs([write_lines(tmp_path / "empty.tsv", [])], files["valid"])


def test_missing_parts_are_told_when_the_data_is_loaded(files: Files) -> None:
    with pytest.raises(SearnnError, match="files of your own need --train and --valid"):
        Translation(train=files["train"]).load()
    task = Pairs(files["train"], files["valid"])
    task.load()
    with pytest.raises(SearnnError, match="there is no test data: give a file with --test"):
        task.test(2)


def test_a_line_to_predict_from(files: Files) -> None:
    task = Pairs(**files, max_length=70)
    assert task.source.decode(task.read(" hund ")) == "hund"
    with pytest.raises(SearnnError, match=r"^it is empty$"):
        task.read("")
    with pytest.raises(SearnnError, match="it has 71 units, more than the 70 of --max-length"):
        task.read("a" * 71)


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
@pytest.mark.parametrize("corpus", ["multi30k", "iwslt14"])
def test_public_translations(data: Path, corpus: str, direction: str) -> None:
    task = Translation(corpus, direction)
    order = slice(None, None, 1 if direction == "de-en" else -1)
    for seed, part in enumerate(parts_of(task)):
        assert part.keys() == set(range(1, 21))
        for number, pair in enumerate(sentences(20, seed), 1):
            for text, found, lexicon in zip(pair[order], part[number], (task.source, task.target), strict=True):
                assert found == " ".join(word if word in lexicon.ids else "<unk>" for word in text.split())
    if corpus == "iwslt14":
        listed = [("<unk>", *line.split()) for line in ("hund der katze die ein", "the dog cat a house white")]
        assert [task.source.units, task.target.units] == listed[order]
    assert (task.metric, task.higher_is_better) == ("bleu", True)


def test_tatoeba_is_split_by_english_sentence(data: Path) -> None:
    task = Translation("tatoeba", level="chars", min_count=1, metric="error")
    parts = parts_of(task)
    assert sorted(number for part in parts for number in part) == list(range(1, 122))
    spoken = [{target for _, target in part.values()} for part in parts]
    assert all(spoken)
    assert sum(map(len, spoken)) == len(set().union(*spoken))
    assert tokenise("\u201eM\u00e4nner-Chor\u201c!") == "\u201e m\u00e4nner-chor \u201c !"
    assert ("geh nicht-doch .", "don't go .") in {pair for part in parts for pair in part.values()}
    lines = (data / "tatoeba" / "deu.txt").read_text().splitlines()
    write_lines(data / "tatoeba" / "deu.txt", [line for line in reversed(lines) if "3" not in line])
    again = Translation("tatoeba", "en-de", level="chars", min_count=1, metric="error")
    for part, before in zip(parts_of(again), spoken, strict=True):
        assert {text for text, _ in part.values()} == {text for text in before if "3" not in text}


@pytest.mark.parametrize("stress", [False, True])
def test_pronunciations_are_split_by_word(data: Path, stress: bool) -> None:
    task = Pronunciation(stress)
    parts = parts_of(task)
    words = [Counter(word for word, _ in part.values()) for part in parts]
    assert sum(map(len, words)) == len(set().union(*words))
    assert (set(words[0].values()), set(words[1].values()), set(words[2].values())) == ({2}, {1}, {1})
    lines = (data / "cmudict" / "cmudict.dict").read_text().splitlines()
    assert sum(map(len, words)) == len(lines) // 2
    for number, (word, phonemes) in {**parts[0], **parts[1], **parts[2]}.items():
        entry = lines[number - 1].removesuffix(" # another").split()
        assert word == entry[0].removesuffix("(2)")
        assert phonemes.split() == [sound if stress else sound.rstrip("012") for sound in entry[1:]]
    assert task.metrics([[1, 2], [1], [2]], [[1], [1], [2]]) == pytest.approx({"per": 100 / 3, "wer": 100 / 3})
    assert task.read(" ABBA\n") == task.source.encode("abba")


def test_a_language_of_sigmorphon_has_its_own_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARNN_DATA", str(tiny_data(tmp_path)))
    task = Pronunciation(language="dut")
    for split, name in (("train", "train"), ("valid", "dev"), ("test", "test")):
        lines = (tmp_path / "sigmorphon2021" / "medium" / f"dut_{name}.tsv").read_text().splitlines()
        batches = epoch(task, size=1) if split == "train" else getattr(task, split)(9)
        assert texts(task, batches) == {n: tuple(line.split("\t")) for n, line in enumerate(lines, 1)}
    task.load()
    assert not task.notes
    without = Pronunciation(language="lav")
    without.load()
    assert without.notes == ["lav has no test words here: it is judged on its validation words"]
    with pytest.raises(SearnnError, match="lav has no test words here: judge it by --split valid"):
        without.test(9)
    with pytest.raises(SearnnError, match="language is 'nld', it must be eng_us, ady, "):
        Pronunciation(language="nld")


@pytest.mark.skipif("SEARNN_DATA" not in os.environ, reason="needs the real data")
def test_korean_has_few_letters_in_its_syllables() -> None:
    sizes = [Pronunciation(language="kor", normalise=form).source.size - 1 for form in ("nfc", "jamo")]
    assert sizes == [1089, 67]


@pytest.mark.skipif("SEARNN_DATA" not in os.environ, reason="needs the real data")
def test_half_of_khmer_words_have_syllables_that_were_never_read() -> None:
    lines = Path(os.environ["SEARNN_DATA"], "sigmorphon2021", "low", "khm_dev.tsv").read_text().splitlines()
    found = []
    for form in ("nfc", "nfd"):
        task = Pronunciation(language="khm", normalise=form)
        found.append((task.source.size - 1, sum(bool(task.unknown_units(line.split("\t")[0])) for line in lines)))
    assert found == [(621, 47), (66, 0)]


def test_targets_of_spaced_units_are_told(tmp_path: Path, files: Files) -> None:
    spaced = write_lines(tmp_path / "spaced.tsv", [f"{word}\t{' '.join(word)}" for word in ("cat", "abbot", "sea")])
    hint = "--target-level words takes what stands between spaces as a unit"
    for settings, told in (({}, True), ({"target_level": "words"}, False)):
        task = Pairs([spaced], [spaced], **settings)
        task.load()
        assert any(hint in note for note in task.notes) == told
    task = Pairs(**files)  # sentences, whose spaces part words
    task.load()
    assert not task.notes
