"""Encoded corpora against a plain loop over lists; bad lines, a full disk, memory that does not grow with tokens."""

import subprocess
import sys
import tempfile
from io import FileIO
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from searnn.data import corpus
from searnn.data.batching import Packed
from searnn.data.corpus import Corpus, encode_pairs, learn_lexicons
from searnn.data.lexicon import Lexicon
from searnn.data.lines import BadLines, read_pairs
from searnn.types import SearnnError

WHERE = Path("train.tsv")
LETTERS = Lexicon.of("abc", "chars")
WORDS = Lexicon.of(["a", "bb", "c"], "words")
LABELS = Lexicon.of(["a", "bb"], "words", unknown="a", ended=False)

Pairs = list[tuple[int, str, str]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache" / "searnn"
    monkeypatch.setattr(corpus, "cache_folder", lambda: folder)
    return folder


def encoded(pairs: Pairs, source: Lexicon = LETTERS, target: Lexicon = WORDS, max_length: int = 100) -> Corpus:
    return encode_pairs(pairs, source, target, bad=BadLines(skip=True), where=WHERE, max_length=max_length)


def unpacked(packed: Packed) -> list[list[int]]:
    rows = zip(packed.starts.tolist(), packed.lengths.tolist(), strict=True)
    return [packed.values[start : start + length].tolist() for start, length in rows]


@pytest.mark.parametrize("target", [WORDS, LABELS])
@pytest.mark.parametrize("chunk", [0, 3, 1 << 18])
@given(st.lists(st.tuples(st.text("abcx", max_size=6), st.lists(st.sampled_from(["a", "bb", "zz"]), max_size=6))))
@settings(max_examples=30, deadline=None)
def test_the_same_as_a_loop(chunk: int, target: Lexicon, rows: list[tuple[str, list[str]]]) -> None:
    pairs = [(3 * place + 1, left, " ".join(right)) for place, (left, right) in enumerate(rows)]
    good = [(number, left, right.split()) for number, left, right in pairs if 1 <= len(left) <= 4]
    good = [(number, left, right) for number, left, right in good if 1 <= len(right) <= 4]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "CHUNK", chunk)
        if not good:
            with pytest.raises(SearnnError, match=r"no good line is left|holds no lines"):
                encoded(pairs, target=target, max_length=4)
            return
        found = encoded(pairs, target=target, max_length=4)
    ids = {unit: number for number, unit in enumerate(target.units)}
    end = [target.size] if target is WORDS else []
    assert found.numbers.tolist() == [number for number, _, _ in good]
    assert unpacked(found.sources) == [["#abc".find(letter) % 5 % 4 for letter in left] for _, left, _ in good]
    assert unpacked(found.targets) == [[ids.get(word, 0) for word in right] + end for _, _, right in good]
    assert len(found) == len(good)


def test_kinds_of_the_tensors() -> None:
    found = encoded([(1, "ab", "bb a"), (5, "c", "c")])
    for packed in (found.sources, found.targets):
        assert packed.values.dtype == torch.int32
        assert packed.starts.dtype == packed.lengths.dtype == torch.int64
    assert found.numbers.dtype == torch.int64
    assert found.targets.take(torch.tensor([1])).padded(torch.tensor([0]), 3, 9).tolist() == [[3, 4, 9]]


def test_long_lines_are_bad_lines() -> None:
    pairs = [(2, "ab", "a"), (4, "abc", "a"), (7, "a", "a a a"), (8, "\u00e9\u00e9\u00e9", "a a a")]
    bad = BadLines(skip=False)
    with pytest.raises(SearnnError, match=r"^train\.tsv has 3 bad lines: 3 longer than 2 \(lines 4, 7, 8\): mend them"):
        encode_pairs(pairs, LETTERS, WORDS, bad=bad, where=WHERE, max_length=2)
    bad = BadLines(skip=True)
    assert encode_pairs(pairs, LETTERS, WORDS, bad=bad, where=WHERE, max_length=2).numbers.tolist() == [2]
    assert bad.summary() == "left out: train.tsv had 3 bad lines: 3 longer than 2 (lines 4, 7, 8)"


def test_bad_lines_of_reading_and_of_encoding_are_told_together(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_bytes(b"a\tb\nno\nabcabc\tb\n")
    bad = BadLines(skip=False)
    pairs = read_pairs((path,), bad)
    with pytest.raises(SearnnError, match=r"2 bad lines: 1 no tab \(line 2\), 1 longer than 5 \(line 3\)"):
        encode_pairs(pairs, LETTERS, WORDS, bad=bad, where=path, max_length=5)


def test_no_lines_at_all() -> None:
    with pytest.raises(SearnnError, match=r"train\.tsv holds no lines: expected at least one pair"):
        encoded([])


def test_a_text_without_pieces_is_empty() -> None:
    pieces = Lexicon.learn(["the cat sat", "the mat"], "sentencepiece", pieces=11)
    bad = BadLines(skip=True)
    pairs = [(1, "the cat", "a"), (2, "\u2581", "a")]
    found = encode_pairs(pairs, pieces, WORDS, bad=bad, where=WHERE, max_length=20)
    assert bad.summary() == "left out: train.tsv had 1 bad line: 1 empty source (line 2)"
    assert pieces.decode(unpacked(found.sources)[0]) == "the cat"


def test_progress_is_told_line_numbers() -> None:
    told: list[int] = []
    pairs = ((2 * place, "a", "a") for place in range(30_000))
    bad = BadLines(skip=False)
    encode_pairs(pairs, LETTERS, WORDS, bad=bad, where=WHERE, max_length=2, progress=told.append)
    assert told == [10_000, 20_000, 30_000, 40_000, 50_000]


def test_the_file_lies_in_the_cache_and_leaves_nothing(cache: Path) -> None:
    found = encoded([(1, "ab", "bb a")])
    assert list(cache.iterdir()) == []
    assert found.sources.values.tolist() == [1, 2]


def test_without_a_cache_the_systems_folder_serves(cache: Path) -> None:
    cache.parent.parent.mkdir(exist_ok=True)
    cache.parent.write_text("a file where the folder should be")
    assert unpacked(encoded([(1, "ab", "bb a")]).targets) == [[2, 1, 4]]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: FileIO("/dev/full", "r+"))
    with pytest.raises(SearnnError, match="cannot be written: No space left on device: free some space"):
        encoded([(1, "ab", "bb a")])


def test_no_temporary_file_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(
        SearnnError, match=r"no temporary file can be made in .*: Permission denied: set XDG_CACHE_HOME"
    ):
        encoded([(1, "ab", "bb a")])


@pytest.mark.parametrize("levels", [("words", "chars"), ("chars", "words"), ("words", "sentencepiece")])
@pytest.mark.parametrize("chunk", [0, 1 << 18])
def test_both_lexicons_are_those_learned_one_by_one(
    levels: tuple[str, str], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "CHUNK", chunk)
    draw = np.random.default_rng(0)
    sides = [" ".join(draw.choice(["the", "cat", "caf\u00e9", "sat", "mat"], 4)) for _ in range(80)]
    pairs = [(place, sides[place], sides[place + 40]) for place in range(40)]
    found = learn_lexicons(lambda: iter(pairs), levels, min_count=2, max_size=5, pieces=16)
    for side, level in enumerate(levels):
        texts = [str(pair[1 + side]) for pair in pairs]
        assert found[side] == Lexicon.learn(texts, level, min_count=2, max_size=5, pieces=16)
    with pytest.raises(SearnnError, match="the level is 'bytes'"):
        learn_lexicons(lambda: iter(pairs), ("words", "bytes"))


MEASURE = """
import sys
from pathlib import Path
from searnn.data.corpus import encode_pairs, learn_lexicons
from searnn.data.lines import BadLines

def pairs():
    side = " ".join(f"w{n}" for n in range(30))
    return ((n, side, side) for n in range(1, int(sys.argv[1]) + 1))

source, target = learn_lexicons(pairs, ("words", "words"))
found = encode_pairs(pairs(), source, target, bad=BadLines(False), where=Path("x"), max_length=50)
assert found.targets.values.shape == (31 * int(sys.argv[1]),)
# Not getrusage: its peak is that of the parent where the parent held more.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory as Linux tells it")
@pytest.mark.slow
def test_memory_does_not_grow_with_the_tokens(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        environment = {"XDG_CACHE_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", MEASURE, str(count)]
        run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return int(run.stdout) * 1024

    # The tokens of 180,000 pairs more are 44 MB as int32 and twice that in lists; what is kept per line is 11 MB.
    assert peak(200_000) - peak(20_000) < 24_000_000
