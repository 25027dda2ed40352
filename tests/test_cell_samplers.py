"""The samplers of cells against naive loops and, where they draw, against the exact distribution."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
import torch
from cases import rng
from sampler_cases import FREE, KNOWN, SPREAD, VOCABULARIES, make_batch, make_scores, probabilities
from scipy.stats import chisquare

from searnn.samplers import (
    AllCells,
    UncertainCells,
    UniformCells,
)
from searnn.types import Batch, SearnnError, Vocabulary


def make_prefix(batch: Batch) -> torch.Tensor:
    """Roll-ins of every kind: ended at once, ended later, never ended."""
    prefix = torch.full_like(batch.targets, batch.vocabulary.choosable[-1])
    if batch.vocabulary.eos is not None:
        prefix[:] = next(token for token in batch.vocabulary.choosable if token != batch.vocabulary.eos)
        for example in range(len(prefix) - 1):
            prefix[example, example] = batch.vocabulary.eos
            prefix[example, example + 1 :] = batch.vocabulary.pad
    return prefix


def cells_that_exist(prefix: torch.Tensor, batch: Batch, example: int) -> list[int]:
    found = []
    for cell in range(min(prefix.shape[1], int(batch.lengths[example]))):
        found.append(cell)
        if int(prefix[example, cell]) == batch.vocabulary.eos:
            break
    return found


def test_all_cells() -> None:
    batch = make_batch(FREE)
    assert AllCells()(make_prefix(batch), batch, rng()).tolist() == [[0, 1, 2, 3, 4, 5]] * 4


@pytest.mark.parametrize("vocab", [FREE, KNOWN], ids=str)
@pytest.mark.parametrize("n", [1, 2, 4, 6, 20])
def test_uniform_cells_exist_are_distinct_and_ascend(n: int, vocab: Vocabulary) -> None:
    batch = make_batch(vocab)
    prefix = make_prefix(batch)
    cells = UniformCells(n)(prefix, batch, rng())
    assert cells.shape == (4, min(n, 6))
    for example in range(4):
        exist = cells_that_exist(prefix, batch, example)
        found = cells[example].tolist()
        assert found == sorted(found)
        real = [cell for cell in found if cell != 6]
        assert len(set(real)) == len(real) == min(n, len(exist))
        assert set(real) <= set(exist)


def test_uniform_cells_are_uniform() -> None:
    count = 6000
    vocab = Vocabulary(size=4, pad=4, bos=5, eos=0)
    prefix = torch.tensor([[1, 2, 3, 0, 4]]).expand(count, 5)
    batch = Batch(None, prefix, torch.full((count,), 5), vocab=vocab)
    seen = Counter(map(tuple, UniformCells(2)(prefix, batch, rng(7)).tolist()))
    assert set(seen) == set(combinations(range(4), 2))
    assert chisquare(list(seen.values())).pvalue > 1e-3


@pytest.mark.parametrize("vocab", VOCABULARIES, ids=str)
@pytest.mark.parametrize("n", [1, 3, 20])
def test_uncertain_cells_have_the_smallest_margins(n: int, vocab: Vocabulary) -> None:
    batch = make_batch(vocab)
    prefix = make_prefix(batch)
    scores = make_scores(batch)
    cells = UncertainCells(n)(prefix, batch, rng(), scores=scores)
    assert cells.shape == (4, min(n, 6))
    for example in range(4):
        margins = {}
        for cell in cells_that_exist(prefix, batch, example):
            best, second = sorted(probabilities(scores[example, cell].tolist(), vocab).values())[:-3:-1]
            margins[cell] = best - second
        expected = sorted(sorted(margins, key=margins.__getitem__)[:n])
        assert cells[example].tolist() == expected + [6] * (min(n, 6) - len(expected))


def test_uncertain_cells_take_the_earlier_of_equals_and_allow_one_token() -> None:
    vocab = Vocabulary(size=1, pad=1, bos=2)
    batch = Batch(None, torch.zeros(1, 4, dtype=torch.long), torch.tensor([4]), vocab=vocab)
    cells = UncertainCells(2)(batch.targets, batch, rng(), scores=torch.zeros(1, 4, 1))
    assert cells.tolist() == [[0, 1]]


def test_of_many_cells_that_are_as_unsure_the_first_are_taken() -> None:
    batch = Batch(None, torch.zeros(2, 60, dtype=torch.long), torch.tensor([60, 30]), vocab=KNOWN)
    scores = torch.zeros(2, 60, KNOWN.size)
    scores[:, 4, 0] = 1.0
    cells = UncertainCells(20)(batch.targets, batch, rng(), scores=scores)
    assert cells.tolist() == [[cell for cell in range(21) if cell != 4]] * 2


def test_uncertain_cells_need_scores() -> None:
    batch = make_batch(FREE)
    assert UncertainCells.needs_scores
    with pytest.raises(SearnnError, match="scores"):
        UncertainCells(2)(make_prefix(batch), batch, rng())


@pytest.mark.parametrize("kind", [UniformCells, UncertainCells])
def test_a_bad_n_is_refused(kind: Any) -> None:
    with pytest.raises(SearnnError, match="n is 0"):
        kind(0)


@pytest.mark.parametrize("sampler", [AllCells(), UniformCells(3), UncertainCells(3)], ids=str)
def test_cell_samplers_read_nothing_back_from_the_device(sampler: Any) -> None:
    batch = make_batch(SPREAD)
    prefix = make_prefix(batch).to("meta")
    extra = {"scores": make_scores(batch).to("meta")} if getattr(sampler, "needs_scores", False) else {}
    assert len(sampler(prefix, batch.to("meta"), rng(), **extra)) == 4
