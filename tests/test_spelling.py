"""Spelling: the paper's alphabet, what is cut out of the text, the noise over it and the split."""

from __future__ import annotations

import os
import random
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from naive import edit
from scipy import stats
from tiny import Refused
from tiny_data import spelling_files

from searnn.cli import main
from searnn.sequences.ends import strip
from searnn.tasks.spelling import LETTERS, Spelling, plain
from searnn.types import Batch, SearnnError

REAL = Path(os.environ.get("SEARNN_DATA") or "nowhere", "spelling")
needs_real = pytest.mark.skipif(not REAL.is_dir(), reason="SEARNN_DATA does not name a folder with spelling")


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def made(count: int) -> list[str]:
    draw = random.Random(0)
    return ["".join(draw.choices("abcXYZ0 19,.!?;:-\u00e9\u4e16#", k=draw.randint(1, 35))) + "." for _ in range(count)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write(tmp_path / "text.txt", [*made(150), "", "  "])


def shown(task: Spelling, batches: Any) -> tuple[list[str], list[str]]:
    """The sources and targets of batches as text; both have the same length."""
    sources, targets = [], []
    for batch in batches:
        found = strip(batch.targets, task.vocab)
        assert [len(target) for target in found] == batch.inputs.lengths.tolist()
        targets += [task.show(target) for target in found]
        rows = zip(batch.inputs.values.tolist(), batch.inputs.lengths.tolist(), strict=True)
        sources += [task.show(row[:length]) for row, length in rows]
    return sources, targets


def epoch(task: Spelling, number: int = 0, size: int = 1, seed: int = 0) -> list[Batch]:
    data = task.train(size, seed)
    return [data.batch(number * data.steps_per_epoch + step) for step in range(data.steps_per_epoch)]


def written(line: str) -> str:
    return "".join(letter if letter in "abcdefghijklmnopqrstuvwxyz0123456789,.!? " else "#" for letter in line.lower())


def test_the_alphabet_and_eos_make_43_tokens(text: Path) -> None:
    task = Spelling(train=[text])
    assert (task.vocab.size, task.source_size) == (43, 42)
    assert task.vocab.eos == 42
    assert (task.features, task.metric, task.higher_is_better) == (None, "error", False)
    assert task.show(list(range(42))) == LETTERS
    assert task.units([0, 41, 40]) == ["a", " ", "#"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Hello, World!", "hello, world!"),
        ("  it's 5 o'clock; (yes)\t?", "it#s 5 o#clock# #yes##?"),
        ("caf\u00e9 \u4e16\u754c #1", "caf# ## #1"),
        ("a\u00a0b\r", "a#b"),
    ],
)
def test_characters_are_mapped(line: str, expected: str, text: Path) -> None:
    assert plain(line) == expected
    task = Spelling(train=[text])
    assert task.show(task.read(line)) == expected
    assert task.cells(torch.tensor([len(expected)])).tolist() == [len(expected) + 2]


@pytest.mark.parametrize("windows", [False, True])
def test_first_ten_characters_or_all_windows(windows: bool, text: Path) -> None:
    task = Spelling(noise=0.0, windows=windows, train=[text])
    sources, targets = shown(task, epoch(task))
    assert sources == targets
    parts = [targets, shown(task, task.valid(7))[1], shown(task, task.test(7))[1]]
    lines = [written(line.strip()) for line in made(150)]
    firsts = Counter(line[:10] for line in lines)
    assert all(parts)
    if not windows:
        assert sum(map(Counter, parts), Counter()) == firsts
    else:
        rest = firsts - Counter(parts[1]) - Counter(parts[2])  # the other parts have the first ten all the same
        assert sum(rest.values()) + len(parts[1]) + len(parts[2]) == 150
        for line in lines:
            if rest[line[:10]]:
                assert {line[start : start + 10] for start in range(0, len(line), 10)} <= set(parts[0])
        assert max(map(len, targets)) == 10
        assert len(targets) > sum(rest.values())


def test_no_training_line_is_in_validation_or_test(tmp_path: Path) -> None:
    lines = [f"{number} line" for number in range(400)]
    twice = write(tmp_path / "twice.txt", lines + [line.upper() for line in lines])
    task = Spelling(train=[twice])
    parts = [set(shown(task, batches)[1]) for batches in (epoch(task), task.valid(50), task.test(50))]
    assert sum(map(len, parts)) == len(set().union(*parts)) == 400
    for part in parts[1:]:
        assert 20 <= len(part) <= 65  # a tenth
    other = write(tmp_path / "other.txt", ["own line"])
    task = Spelling(train=[twice], valid=[other])
    assert shown(task, task.valid(9))[1] == ["own line"]
    assert set(shown(task, task.test(50))[1]) == parts[2]
    assert set(shown(task, epoch(task))[1]) == parts[0] | parts[1]
    task = Spelling(train=[twice], valid=[other], test=[other])
    assert set(shown(task, epoch(task))[1]) == parts[0] | parts[1] | parts[2]


@pytest.mark.parametrize("noise", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("part", ["train", "valid"])
def test_the_noise_is_even_and_of_its_rate(noise: float, part: str, tmp_path: Path) -> None:
    train, valid = (write(tmp_path / f"{n}.txt", ["a" * 10] * 1200) for n in (0, 1))
    task = Spelling(noise=noise, train=[train], valid=[valid])
    batches = epoch(task, size=1000) if part == "train" else list(task.valid(1000))
    sources, targets = shown(task, batches)
    assert set(targets) == {"a" * 10}
    found = Counter("".join(sources))
    total = sum(found.values())
    expected = [total * noise / 42 + (total * (1 - noise) if letter == "a" else 0) for letter in LETTERS]
    assert stats.chisquare([found[letter] for letter in LETTERS], expected).pvalue > 1e-4
    places = torch.tensor([[letter != "a" for letter in source] for source in sources]).double()
    assert (places.mean(0) - noise * 41 / 42).abs().max() < 5 * (0.25 / len(sources)) ** 0.5  # in every place alike


def test_fresh_noise_at_each_step_the_same_for_the_same_step(tmp_path: Path) -> None:
    train = write(tmp_path / "train.txt", ["abcdefghij"] * 40)
    valid = write(tmp_path / "valid.txt", ["abcdefghij"] * 40)
    task = Spelling(train=[train], valid=[valid], test=[valid])
    data = task.train(20, 3)
    assert data.steps_per_epoch == 2
    first = [data.batch(step).inputs.values for step in range(4)]
    for one in range(4):
        for other in range(one):
            assert not torch.equal(first[one], first[other])
    again = Spelling(train=[train], valid=[valid]).train(20, 3)
    assert all(torch.equal(again.batch(step).inputs.values, first[step]) for step in (2, 0, 3))
    assert not torch.equal(task.train(20, 4).batch(0).inputs.values, first[0])
    assert shown(task, [data.batch(5)])[1] == ["abcdefghij"] * 20


def test_the_noise_of_validation_and_test_is_fixed_by_the_seed(tmp_path: Path) -> None:
    lines = write(tmp_path / "lines.txt", ["abcdefghij"] * 40)

    def noisy(seed: int) -> list[list[str]]:
        task = Spelling(train=[lines], valid=[lines], test=[lines], seed=seed)
        assert shown(task, task.valid(7)) == shown(task, task.valid(11))
        task.train(4, 9).batch(3)
        return [shown(task, task.valid(5))[0], shown(task, task.test(5))[0]]

    valid, test = noisy(0)
    assert valid != test
    assert noisy(0) == [valid, test]
    assert noisy(1)[0] != valid
    assert noisy(1)[1] != test


def test_metrics_are_those_of_a_loop(text: Path) -> None:
    draw = random.Random(1)
    targets = [draw.choices(range(42), k=draw.randint(1, 10)) for _ in range(30)]
    outputs = [[t for t in target if draw.random() < 0.9] for target in targets]
    wrong = sum(edit(output, target) for output, target in zip(outputs, targets, strict=True))
    unequal = sum(output != target for output, target in zip(outputs, targets, strict=True))
    expected = {"error": wrong / sum(map(len, targets)), "sequence_error": unequal / 30}
    assert Spelling(train=[text]).metrics(outputs, targets) == pytest.approx(expected)


def test_public_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = spelling_files(tmp_path / "data")
    monkeypatch.setenv("SEARNN_DATA", str(root))
    with (root / "spelling" / "brown.txt").open("ab") as stream:
        stream.write(b"not \xff UTF-8\n")
    task = Spelling()
    task.load()
    assert len(task.notes) == 1
    assert task.notes[0].endswith("brown.txt had 1 bad line: 1 not UTF-8 (line 41)")
    parts = [shown(task, batches)[1] for batches in (epoch(task), task.valid(9), task.test(9))]
    assert {target[0] for target in parts[0]} == {"a", "b"}
    assert len(parts[0]) == 80
    assert {target[0] for target in parts[1] + parts[2]} == {"l"}
    assert len(set(parts[1] + parts[2])) == 40
    assert len(parts[1]) < len(parts[2])


def test_a_run_keeps_to_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SEARNN_DATA", str(spelling_files(tmp_path / "data")))
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    sizes = ["--steps", "2", "--width", "4", "--batch-size", "8", "--device", "cpu"]
    assert main(["train", "spelling", *sizes, "--run", str(run)]) == 0
    assert tomllib.loads((run / "config.toml").read_text())["task"]["benchmark"] is True
    assert main(["eval", str(run)]) == 0
    monkeypatch.setenv("SEARNN_DATA", str(tmp_path))
    assert "spelling" in refused("eval", run)  # and not measured on another text


@needs_real
def test_real_text_has_no_symbol_beyond_the_alphabet() -> None:
    task = Spelling()
    for part in ("valid", "test"):
        found = task.examples(part)
        assert 2000 < len(found) < 11_000
        assert int(found.sources.values.max()) <= 42
        assert int(found.targets.lengths.max()) == 11
    assert len(task.examples("valid")) + len(task.examples("test")) == 12_216


def test_what_is_wrong_is_told(tmp_path: Path, text: Path) -> None:
    with pytest.raises(SearnnError, match=r"noise is 1\.5, it must be a number of at least 0 and at most 1"):
        Spelling(noise=1.5, train=[text])
    with pytest.raises(SearnnError, match="without --train"):
        Spelling(valid=[text])
    with pytest.raises(SearnnError, match=r"^it is empty$"):
        Spelling(train=[text]).read("  ")
    with pytest.raises(SearnnError, match=r"none\.txt cannot be read: No such file"):
        Spelling(train=[tmp_path / "none.txt"]).load()
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\n\0\n")
    with pytest.raises(SearnnError, match=r"bad\.txt has 2 bad lines: 1 not UTF-8 \(line 1\), 1 NUL \(line 2\): mend"):
        Spelling(train=[text], valid=[bad]).load()
    empty = write(tmp_path / "empty.txt", ["", " "])
    with pytest.raises(SearnnError, match=r"the valid text has no lines: give .*--valid"):
        Spelling(train=[text], valid=[empty]).load()
    mixed = tmp_path / "mixed.txt"
    mixed.write_bytes(b"good line\n\xff\nanother\n")
    with pytest.raises(SearnnError, match="leave it out with --skip-bad-lines"):
        Spelling(train=[mixed], valid=[text], test=[text]).load()
    task = Spelling(train=[mixed], valid=[text], test=[text], skip_bad_lines=True)
    task.load()
    assert task.notes == [f"left out: {mixed} had 1 bad line: 1 not UTF-8 (line 2)"]
    assert sorted(shown(task, epoch(task))[1]) == ["another", "good line"]
