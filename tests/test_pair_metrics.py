"""The metrics of tasks on pairs of texts, each against its definition in plain Python or another library."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest
import sacrebleu
from naive import edit
from tiny_data import data_folder, sentences, write_lines

from searnn.tasks.common import metrics
from searnn.tasks.common.text import TextTask
from searnn.tasks.pairs import Pairs
from searnn.tasks.pronunciation import Pronunciation

PHONEMES = "a a\u02d0 t\u0361s t\u0361\u0283\u02b0 k m n"
NAMES = ("wer", "per", "error", "sequence_error", "exact", "bleu", "chrf")
HIGHER = ("exact", "bleu", "chrf")


def pairs(folder: Path, metric: str, level: str) -> Pairs:
    path = write_lines(folder / f"{level}.tsv", map("\t".join, sentences(24, 24)))
    return Pairs([path], [path], level=level, metric=metric)


def phonemes(folder: Path, metric: str) -> Pairs:
    path = write_lines(folder / "phonemes.tsv", [f"word\t{PHONEMES}", "other\tn m a"])
    return Pairs([path], [path], target_level="words", metric=metric)


def drawn(task: TextTask, count: int = 30) -> tuple[list[list[int]], list[list[int]]]:
    """Targets of the task's units, and outputs of which most differ a little."""
    draw = random.Random(1)
    targets = [draw.choices(range(1, task.target.size), k=draw.randint(3, 9)) for _ in range(count)]
    outputs = [[token if draw.random() < 0.85 else 1 for token in row if draw.random() < 0.9] for row in targets]
    return outputs, targets


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", ["chars", "words"])
def test_every_metric_is_what_its_formula_says(tmp_path: Path, name: str, level: str) -> None:
    task = pairs(tmp_path, name, level)
    outputs, targets = drawn(task)
    assert (task.metric, task.higher_is_better) == (name, name in HIGHER)
    edits = sum(edit(output, target) for output, target in zip(outputs, targets, strict=True))
    units = sum(len(target) for target in targets)
    texts = [[task.show(row) for row in side] for side in (outputs, targets)]
    wrong = sum(ours != true for ours, true in zip(*texts, strict=True))
    expected = {
        "wer": 100 * wrong / 30,
        "per": 100 * edits / units,
        "error": edits / units,
        "sequence_error": wrong / 30,
        "exact": 100 * (30 - wrong) / 30,
        "bleu": sacrebleu.corpus_bleu(texts[0], [texts[1]], tokenize="none", force=True).score,
        "chrf": sacrebleu.corpus_chrf(texts[0], [texts[1]]).score,
    }
    found = task.metrics(outputs, targets)
    assert found == {other: pytest.approx(expected[other]) for other in found}
    assert 0 < found[name] < 100 or (level, name) == ("chars", "bleu")  # no word sequence of four is right
    assert ("per" in found) == (name in ("wer", "per", "exact"))  # one kind of rates, in per cent or as shares
    assert ("error" in found) != ("per" in found)
    signature = {"bleu": "tok:none", "chrf": "nc:6"}.get(name)
    assert signature is None or (task.signature is not None and signature in task.signature)


def test_perfect_outputs(tmp_path: Path) -> None:
    for name in NAMES:
        task = pairs(tmp_path, name, "words")
        _, targets = drawn(task)
        assert task.metrics(targets, targets)[name] == pytest.approx(100 if name in HIGHER else 0)


def test_bleu_is_not_shown_of_phonemes_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert phonemes(tmp_path, "error").measured == ("error", "sequence_error")
    assert phonemes(tmp_path, "bleu").measured == ("error", "sequence_error", "bleu")
    assert phonemes(tmp_path, "exact").measured == ("per", "wer", "exact")
    assert pairs(tmp_path, "error", "words").measured == ("error", "sequence_error", "bleu")
    assert pairs(tmp_path, "error", "chars").measured == ("error", "sequence_error")


def test_the_same_metrics_of_pronunciation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_folder(tmp_path, monkeypatch)
    task = Pronunciation()
    outputs, targets = drawn(task)
    for name in NAMES:
        other = Pronunciation(metric=name)
        assert other.metrics(outputs, targets)[name] > 0
    wrong = sum(output != target for output, target in zip(outputs, targets, strict=True))
    assert task.metrics(outputs, targets)["wer"] == pytest.approx(100 * wrong / 30)


def test_words_of_jamo_are_wrong_where_their_syllables_are(tmp_path: Path) -> None:
    words = ["한국어", "사과", "값", "닭고기", "물"]
    path = write_lines(tmp_path / "korean.tsv", [f"{word}\t{word}" for word in words])
    task = Pairs([path], [path], normalise="jamo", metric="wer")
    draw = random.Random(0)
    targets = [task.target.encode(draw.choice(words)) for _ in range(200)]
    outputs = [[t if draw.random() < 0.8 else draw.randrange(1, task.target.size) for t in row] for row in targets]
    found = task.metrics(outputs, targets)
    shown = [[unicodedata.normalize("NFC", task.show(row)) for row in side] for side in (outputs, targets)]
    assert found["wer"] == pytest.approx(sum(map(str.__ne__, *shown)) / 2)
    letters = [[unicodedata.normalize("NFD", text) for text in side] for side in shown]
    edits = sum(edit(list(ours), list(true)) for ours, true in zip(*letters, strict=True))
    assert found["per"] == pytest.approx(100 * edits / sum(map(len, letters[1])))


def test_rates_are_of_the_corpus_not_the_mean_of_its_lines() -> None:
    assert metrics.rates([[1], [2, 2, 2, 2]], [[2], [2, 2, 2, 2]]) == {
        "error": 1 / 5, "sequence_error": 1 / 2, "per": 20, "wer": 50, "exact": 50
    }  # fmt: skip
