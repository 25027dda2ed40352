"""Room for outputs against sorted lists, and the errors of whole data sets against plain loops and sacrebleu."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import edit

from searnn.data.room import NAME, Room
from searnn.tasks.common.metrics import corpus_bleu, edit_error, sequence_error
from searnn.types import SearnnError

TOKENS = st.lists(st.integers(-1, 4), max_size=6)
SENTENCES = st.lists(st.sampled_from(["the", "cat", "sat", ".", "Caf\u00e9", "<unk>", "don't"]), min_size=0, max_size=8)


@given(st.integers(0, 300), st.integers(1, 9), st.lists(st.integers(0, 99), min_size=1, max_size=9))
def test_the_cells_of_a_source(hundredths: int, extra: int, lengths: list[int]) -> None:
    found = Room(hundredths / 100, extra)(torch.tensor(lengths))
    assert found.dtype == torch.int64
    for cells, length in zip(found.tolist(), lengths, strict=True):
        exact = -(-hundredths * length // 100) + extra
        assert exact <= cells <= exact + 1  # a product that is whole may come out a little above


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 60)), min_size=1, max_size=250), st.integers(1, 6))
@settings(deadline=None)
def test_fitted_room_holds_99_of_100_targets(pairs: list[tuple[int, int]], extra: int) -> None:
    sources, targets = (torch.tensor(side) for side in zip(*pairs, strict=True))
    room = Room.fit(sources, targets, extra)
    held = int((targets <= room(sources)).sum())
    assert held >= 0.99 * len(pairs)
    ratios = sorted(max(0, target - extra) / source for source, target in pairs)
    least = -(-99 * len(pairs) // 100)
    assert ratios[least - 1] - 1e-6 <= room.per_unit  # and no wider than it must be:
    assert room.per_unit <= ratios[min(least, len(pairs) - 1)] + 0.0101


def test_a_rare_long_target_gets_no_room() -> None:
    sources = torch.full((1000,), 10)
    targets = torch.full((1000,), 16)
    targets[::200] = 500
    assert 1.1 <= Room.fit(sources, targets).per_unit < 1.12
    assert Room.fit(sources, torch.full((1000,), 3)) == Room(0.0, 5)


def test_saved_and_loaded(tmp_path: Path) -> None:
    room = Room(1.37, 4)
    room.save(tmp_path)
    written = json.loads((tmp_path / NAME).read_text())
    assert written == {"per_unit": 1.37, "extra": 4, "checksum": written["checksum"]}
    assert Room.load(tmp_path) == room


@pytest.mark.parametrize(
    "content",
    [
        None, b"", b"{", b"[1, 2]", b"3", b"\xff", b'{"per_unit": 1}x', b'{"extra": 5}', b'{"per_unit": "2"}',
        b'{"per_unit": null}', b'{"per_unit": 1, "extra": 5, "more": 0}', b'{"per_unit": -1}', b'{"per_unit": NaN}',
        b'{"per_unit": 1, "extra": 0}', b'{"per_unit": 1, "extra": 1.5}',
    ],
)  # fmt: skip
def test_a_damaged_room_is_told_in_one_line(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / NAME).write_bytes(content)
    with pytest.raises(SearnnError, match=r"room\.json (cannot be read|is damaged) \(.*\): restore it") as caught:
        Room.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("per_unit", "extra"), [(-0.1, 5), (1.0, 0), (math.inf, 5), (math.nan, 5)])
def test_no_room_at_all_is_refused(per_unit: float, extra: int) -> None:
    with pytest.raises(SearnnError, match="expected 0 and 1 or more"):
        Room(per_unit, extra)


@given(st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=6))
def test_errors_are_those_of_a_loop(pairs: list[tuple[list[int], list[int]]]) -> None:
    outputs, targets = (list(side) for side in zip(*pairs, strict=True))
    wrong = sum(edit(output, target) for output, target in pairs)
    assert edit_error(outputs, targets) == pytest.approx(wrong / sum(len(target) or 1 for target in targets))
    unequal = [output for output, target in pairs if edit(output, target)]
    assert sequence_error(outputs, targets) == pytest.approx(len(unequal) / len(pairs))
    assert sequence_error([tuple(output) for output in outputs], outputs) == 0


@given(st.lists(st.tuples(SENTENCES, SENTENCES), min_size=1, max_size=8))
@settings(deadline=None, max_examples=50)
def test_bleu_is_that_of_sacrebleu(pairs: list[tuple[list[str], list[str]]]) -> None:
    outputs, targets = ([" ".join(words) for words in side] for side in zip(*pairs, strict=True))
    expected = sacrebleu.corpus_bleu(outputs, [targets], tokenize="none", force=True)
    assert corpus_bleu(outputs, targets)[0] == pytest.approx(expected.score)


def test_bleu_says_how_it_was_counted() -> None:
    score, signature = corpus_bleu(["the cat sat on the mat ."], ["the cat sat on the mat ."])
    assert score == pytest.approx(100)
    fields = dict(field.split(":") for field in signature.split("|"))
    assert fields == {
        "nrefs": "1", "case": "mixed", "eff": "no", "tok": "none", "smooth": "exp", "version": sacrebleu.__version__
    }  # fmt: skip


@pytest.mark.parametrize("score", [edit_error, sequence_error, corpus_bleu])
@pytest.mark.parametrize(("outputs", "targets"), [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_outputs_without_targets_are_refused(score, outputs: list[str], targets: list[str]) -> None:
    with pytest.raises(SearnnError, match=f"{len(outputs)} outputs for {len(targets)} targets"):
        score(outputs, targets)
