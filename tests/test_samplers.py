"""The samplers of tokens against naive loops and, where they draw, against the exact distribution of what they draw."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, permutations
from typing import Any

import pytest
import torch
from cases import rng
from sampler_cases import FREE, SPREAD, VOCABULARIES, make_batch, make_scores, probabilities
from scipy.stats import chisquare

import searnn.samplers
from searnn.config.registry import AXES
from searnn.interfaces import CellSampler, TokenSampler
from searnn.samplers import (
    AllCells,
    AllTokens,
    BiasedTokens,
    EndToken,
    NeighbourTokens,
    PolicyTokens,
    TargetedTokens,
    TopTokens,
    UncertainCells,
    UniformCells,
    UniformTokens,
    UnionTokens,
    union,
)
from searnn.samplers.candidates import choosable_log_probs
from searnn.types import Batch, SearnnError, Vocabulary

COUNTED = [UniformTokens, PolicyTokens, BiasedTokens, TopTokens, TargetedTokens, NeighbourTokens]
DRAWN = [UniformTokens, PolicyTokens, BiasedTokens]


def every_cell(batch: Batch) -> torch.Tensor:
    return torch.arange(batch.targets.shape[1]).expand(len(batch.targets), -1)


def truth_at(batch: Batch, example: int, cell: int) -> int:
    """The true token by hand: the target's, EOS past its end; PAD where a known-length target has none."""
    token = int(batch.targets[example, cell])
    if token == batch.vocabulary.pad and batch.vocabulary.eos is not None:
        return batch.vocabulary.eos
    return token


def test_every_member_follows_its_protocol_and_has_its_own_name() -> None:
    names = set(searnn.samplers.__all__) - {"union"}
    token_samplers = [AllTokens(), EndToken(), *(kind(3) for kind in COUNTED), union(AllTokens())]
    cell_samplers = [AllCells(), UniformCells(2), UncertainCells(2)]
    assert {type(member).__name__ for member in token_samplers + cell_samplers} == names
    assert all(isinstance(member, TokenSampler) for member in token_samplers)
    assert all(isinstance(member, CellSampler) for member in cell_samplers)
    assert {type(member) for member in token_samplers} == {*AXES["tokens"].values(), UnionTokens}
    assert {type(member) for member in cell_samplers} == {*AXES["cells"].values()}


@pytest.mark.parametrize("vocab", VOCABULARIES, ids=str)
@pytest.mark.parametrize("k", [1, 2, 4, 8, 30, 10**30])
@pytest.mark.parametrize("kind", COUNTED)
def test_the_truth_comes_first_and_pad_and_bos_never(kind: Any, k: int, vocab: Vocabulary) -> None:
    batch = make_batch(vocab)
    scores = make_scores(batch)
    scores[..., [token for token in (vocab.pad, vocab.bos) if token < vocab.size]] = 50.0
    tokens = kind(k)(scores, batch, every_cell(batch), rng())
    room = 2 * 6 - 1 if kind is NeighbourTokens else len(vocab.choosable)
    assert tokens.shape == (4, 6, min(k, room))
    for example in range(4):
        for cell in range(int(batch.lengths[example])):
            found = tokens[example, cell].tolist()
            truth = truth_at(batch, example, cell)
            assert found[0] == truth
            assert set(found) <= set(vocab.choosable)
            others = [token for token in found if token != truth]
            if kind is not NeighbourTokens:  # the truth itself may repeat a token
                assert len(set(others)) == len(others)
            if kind in (*DRAWN, TopTokens):
                assert len(others) == min(k, len(vocab.choosable)) - 1


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("rubbish", [math.nan, math.inf, -math.inf, 3e38, -3e38])
def test_any_score_is_survived(kind: Any, rubbish: float) -> None:
    batch = make_batch(FREE)
    for places in ([3], [0, 1], [3, 4, 5], list(range(9))):
        scores = make_scores(batch).float()
        scores[..., places] = rubbish
        tokens = kind(5)(scores, batch, every_cell(batch), rng())
        assert set(tokens.flatten().tolist()) <= set(FREE.choosable)
        assert all(tokens[e, c, 0] == truth_at(batch, e, c) for e in range(4) for c in range(6))
        if kind in (*DRAWN, TopTokens):
            assert all(len(set(found)) == 5 for found in tokens.flatten(0, 1).tolist())


def test_a_score_that_is_no_number_is_the_lowest_of_all() -> None:
    scores = torch.tensor([[[1.0, 2.0, math.nan, -3.0, 0.5, math.nan, -9.0, 4.0, 0.0]]], dtype=torch.float64)
    found = choosable_log_probs(scores, FREE)[0, 0].exp().tolist()
    rest = {token: scores[0, 0, token].item() for token in (3, 4, 6, 7, 8)}
    total = sum(map(math.exp, rest.values()))
    assert found == pytest.approx([math.exp(rest[token]) / total if token in rest else 0.0 for token in range(9)])


@pytest.mark.parametrize("kind", COUNTED)
def test_a_cell_past_the_end_is_allowed(kind: Any) -> None:
    batch = make_batch(FREE)
    cells = torch.full((4, 2), 6)
    tokens = kind(3)(make_scores(batch, cells=2), batch, cells, rng())
    assert tokens.shape == (4, 2, 3)
    assert set(tokens.flatten().tolist()) <= set(FREE.choosable)


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("k", [0, -1])
def test_a_bad_k_is_refused(kind: Any, k: int) -> None:
    with pytest.raises(SearnnError, match=f"k is {k}"):
        kind(k)


@pytest.mark.parametrize("boost", [0.0, 1.0, -0.5, 2.0, math.nan])
def test_a_bad_boost_is_refused(boost: float) -> None:
    with pytest.raises(SearnnError, match="boost is"):
        BiasedTokens(3, boost)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan])
def test_a_bad_threshold_is_refused(threshold: float) -> None:
    with pytest.raises(SearnnError, match="threshold is"):
        TargetedTokens(3, threshold)


@pytest.mark.parametrize("vocab", VOCABULARIES, ids=str)
def test_all_tokens_are_the_choosable_ones_in_order(vocab: Vocabulary) -> None:
    batch = make_batch(vocab)
    tokens = AllTokens()(make_scores(batch), batch, every_cell(batch), rng())
    assert tokens.shape == (4, 6, len(vocab.choosable))
    assert all(found == list(vocab.choosable) for found in tokens.flatten(0, 1).tolist())


@pytest.mark.parametrize(
    ("sampler", "weight"),
    [
        (UniformTokens(3), lambda p: p**0),
        (PolicyTokens(3), lambda p: p),
        (BiasedTokens(3), lambda p: p**0.5),
        (BiasedTokens(3, 0.25), lambda p: p**0.25),
    ],
    ids=["uniform", "policy", "biased", "biased-more"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_follow_successive_sampling_without_replacement(sampler: Any, weight: Any, dtype: torch.dtype) -> None:
    vocab = Vocabulary(size=7, pad=0, bos=4, eos=2)
    count = 20000
    batch = Batch(None, torch.tensor([[3]]), torch.tensor([1]), vocab=vocab)
    row = torch.tensor([9.0, 1.2, -0.4, 2.0, 7.0, 0.5, -1.1], dtype=dtype)
    cells = torch.zeros(1, count, dtype=torch.long)
    tokens = sampler(row.expand(1, count, 7), batch, cells, rng(5))[0]
    assert (tokens[:, 0] == 3).all()
    seen = Counter(map(tuple, tokens[:, 1:].tolist()))
    probs = probabilities(row.tolist(), vocab)
    weights = {token: weight(p) for token, p in probs.items() if token != 3}
    total = sum(weights.values())
    exact = {
        (first, second): weights[first] / total * weights[second] / (total - weights[first])
        for first, second in permutations(weights, 2)
    }
    assert set(seen) <= set(exact)
    observed, expected = zip(*((seen[pair], count * share) for pair, share in exact.items()), strict=True)
    assert chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("kind", DRAWN)
def test_tokens_of_no_weight_fill_up_at_random(kind: Any) -> None:
    vocab = Vocabulary(size=5, pad=5, bos=6)
    count = 6000
    batch = Batch(None, torch.tensor([[0]]), torch.tensor([1]), vocab=vocab)
    scores = torch.tensor([3e38, math.nan, -math.inf, -3e38, -2e38]).expand(1, count, 5)
    tokens = kind(2)(scores, batch, torch.zeros(1, count, dtype=torch.long), rng(8))[0]
    seen = Counter(tokens[:, 1].tolist())
    assert set(seen) == {1, 2, 3, 4}
    assert chisquare(list(seen.values())).pvalue > 1e-3


@pytest.mark.parametrize("kind", DRAWN)
def test_draws_differ_between_cells_and_repeat_with_the_seed(kind: Any) -> None:
    batch = make_batch(FREE, examples=3, width=10)
    scores = torch.zeros(3, 10, FREE.size)
    first, again, other = (kind(4)(scores, batch, every_cell(batch), rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert len({tuple(found) for found in first[0].tolist()}) > 3  # the first target is empty: one truth everywhere


@pytest.mark.parametrize("vocab", VOCABULARIES, ids=str)
@pytest.mark.parametrize("k", [2, 4])
def test_top_tokens_are_those_of_topk(k: int, vocab: Vocabulary) -> None:
    batch = make_batch(vocab)
    scores = make_scores(batch)
    tokens = TopTokens(k)(scores, batch, every_cell(batch), rng())
    for example in range(4):
        for cell in range(int(batch.lengths[example])):
            truth = truth_at(batch, example, cell)
            others = torch.tensor([token for token in vocab.choosable if token != truth])
            best = others[scores[example, cell, others].topk(k - 1).indices]
            assert tokens[example, cell].tolist() == [truth, *best.tolist()]


@pytest.mark.parametrize("vocab", VOCABULARIES, ids=str)
@pytest.mark.parametrize("k", [1, 2, 3, 4, 7, 40])
def test_neighbours_are_the_true_tokens_around_the_cell(k: int, vocab: Vocabulary) -> None:
    batch = make_batch(vocab, examples=7)
    cells = torch.randint(6, (7, 4), generator=rng())
    tokens = NeighbourTokens(k)(make_scores(batch, cells=4), batch, cells, rng())
    for example in range(7):
        for index, cell in enumerate(cells[example].tolist()):
            expected = [truth_at(batch, example, cell)]
            for distance in range(1, 2 * k):
                for place in (cell + distance, cell - distance):
                    token = truth_at(batch, example, place) if 0 <= place < 6 else vocab.pad
                    expected.append(expected[0] if token == vocab.pad else token)
            assert tokens[example, index].tolist() == expected[: min(k, 11)]  # 5 on each side at most


@pytest.mark.parametrize("vocab", VOCABULARIES, ids=str)
@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.3, 1.0])
def test_targeted_tokens_are_within_the_threshold_of_the_best(threshold: float, vocab: Vocabulary) -> None:
    batch = make_batch(vocab, examples=7)
    scores = make_scores(batch)
    for k in (3, 9):
        tokens = TargetedTokens(k, threshold)(scores, batch, every_cell(batch), rng())
        for example in range(7):
            for cell in range(int(batch.lengths[example])):
                truth = truth_at(batch, example, cell)
                probs = probabilities(scores[example, cell].tolist(), vocab)
                near = {token for token, p in probs.items() if p >= max(probs.values()) - threshold} - {truth}
                found = tokens[example, cell].tolist()
                others = set(found) - {truth}
                assert others <= near
                assert len(others) == min(len(near), k - 1)
                assert len(found) == min(k, len(vocab.choosable))
                assert found == [truth, *found[1 : len(others) + 1], *[truth] * (len(found) - 1 - len(others))]


def test_targeted_tokens_are_thinned_uniformly() -> None:
    vocab = Vocabulary(size=6, pad=6, bos=7)
    count = 9000
    batch = Batch(None, torch.tensor([[3]]), torch.tensor([1]), vocab=vocab)
    scores = torch.log(torch.tensor([0.3, 0.25, 0.2, 0.2, 0.04, 0.01])).expand(1, count, 6)
    tokens = TargetedTokens(3, 0.15)(scores, batch, torch.zeros(1, count, dtype=torch.long), rng(6))[0]
    seen = Counter(map(tuple, tokens[:, 1:].sort(1).values.tolist()))
    assert set(seen) == set(combinations((0, 1, 2), 2))
    assert chisquare(list(seen.values())).pvalue > 1e-3


@pytest.mark.parametrize("vocab", VOCABULARIES, ids=str)
def test_the_end_stands_beside_the_truth(vocab: Vocabulary) -> None:
    batch = make_batch(vocab, examples=7)
    cells = torch.randint(6, (7, 4), generator=rng())
    scores = torch.full((7, 4, vocab.size), math.nan)  # nothing of them is read
    tokens = EndToken()(scores, batch, cells, rng())
    last = [] if vocab.eos is None else [vocab.eos]
    for example in range(7):
        for index, cell in enumerate(cells[example].tolist()):
            assert tokens[example, index].tolist() == [truth_at(batch, example, cell), *last]
    together = union(TopTokens(3), EndToken())(scores.nan_to_num(), batch, cells, rng())
    assert together.shape == (7, 4, 3 + 1 + len(last))
    assert vocab.eos is None or (together[..., -1] == vocab.eos).all()


def test_the_end_is_a_candidate_past_the_end_too() -> None:
    batch = make_batch(FREE)
    tokens = EndToken()(make_scores(batch, cells=2), batch, torch.full((4, 2), 6), rng())
    assert (tokens == FREE.eos).all()


def test_a_union_is_its_members_side_by_side() -> None:
    batch = make_batch(FREE)
    scores = make_scores(batch)
    cells = every_cell(batch)
    members = (TopTokens(3), NeighbourTokens(5), UniformTokens(2))
    together = union(*members)
    assert together == UnionTokens(members)
    shared = rng(1)
    expected = torch.cat([member(scores, batch, cells, shared) for member in members], -1)
    assert torch.equal(together(scores, batch, cells, rng(1)), expected)
    with pytest.raises(SearnnError, match="union"):
        union()


@pytest.mark.parametrize(
    "sampler", [AllTokens(), EndToken(), *(kind(3) for kind in COUNTED), union(TopTokens(2), EndToken())], ids=str
)
def test_token_samplers_read_nothing_back_from_the_device(sampler: Any) -> None:
    # The meta device has no values: whatever would wait for one fails there.
    batch = make_batch(SPREAD).to("meta")
    tokens = sampler(make_scores(batch).to("meta"), batch, every_cell(batch).to("meta"), rng())
    assert tokens.device.type == "meta"
    assert tokens.shape[:2] == (4, 6)
