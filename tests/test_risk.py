"""Minimum-Bayes-risk decoding and the best of N, against naive loops and enumeration."""

from __future__ import annotations

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model, rng
from naive import Example, all_outputs
from rapidfuzz.distance import Levenshtein

from searnn.costs import EditDistance, ExactMatch, Hamming, SentenceBleu, from_callable
from searnn.decoding import decode, decode_beam, decode_mbr, least_cost, least_risk, pairwise_costs, risk, sample
from searnn.sequences.ends import strip
from searnn.types import Vocabulary

VOCABS = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])


def drawn(vocab: Vocabulary, count: int = 12, seed: int = 1):
    """Samples of a model that is often but not always of one mind, and their batch."""
    model, batch = make_model(vocab, seed=3, spread=1.5), make_batch(vocab, lengths=(4, 2, 3, 1))
    return model, batch, sample(model, batch, count=count, rng=rng(seed))


def costs_of(vocab: Vocabulary):
    yield EditDistance(vocab)
    yield EditDistance(vocab, normalised=False)
    yield Hamming(vocab)
    yield ExactMatch(vocab)
    yield SentenceBleu(vocab)
    yield from_callable(lambda output, target: abs(len(output) - 2 * len(target)), vocab)  # not symmetric


@pytest.mark.parametrize("more", [False, True], ids=["samples", "also a beam"])
@VOCABS
def test_the_least_risk_is_that_of_a_naive_loop(vocab, more):
    """Every pair by itself, repetitions and all."""
    model, batch, outputs = drawn(vocab)
    also = decode_beam(model, batch, width=3)[0] if more else None
    for cost in costs_of(vocab):
        chosen = least_risk(outputs, cost, also)
        for b, rows in enumerate(outputs):
            choices = rows if also is None else torch.cat([also[b], rows])
            risks = [sum(cost(ours[None], theirs[None]).item() for theirs in rows) / len(rows) for ours in choices]
            place = (choices == chosen[b]).all(-1).nonzero()[0, 0]
            assert risks[place] == pytest.approx(min(risks)), cost
            assert all(risk > min(risks) - 1e-9 for risk in risks)


def test_pairwise_costs_are_those_of_another_library_also_in_parts(monkeypatch: pytest.MonkeyPatch):
    _, _, outputs = drawn(FREE)
    references = outputs[:, 3:8, :]
    whole = pairwise_costs(outputs, references, EditDistance(FREE, normalised=False))
    for b in range(len(outputs)):
        ours, theirs = strip(outputs[b], FREE), strip(references[b], FREE)
        assert whole[b].tolist() == [[Levenshtein.distance(a, c) for c in theirs] for a in ours]
    monkeypatch.setattr(risk, "PAIRS", 1)
    assert torch.equal(pairwise_costs(outputs, references, EditDistance(FREE, normalised=False)), whole)


@VOCABS
def test_many_samples_come_to_the_least_expected_cost_of_the_model(vocab):
    """By enumeration of every output with its probability; what is chosen is about the best there is."""
    model, batch = make_model(vocab, seed=3, spread=1.5), make_batch(vocab, lengths=(3, 2))
    cost = EditDistance(vocab, normalised=False)
    found = strip(decode_mbr(model, batch, samples=2000, cost=cost, rng=rng(2)), vocab)
    for b in range(2):
        space = [
            ([token for token in tokens if token != vocab.eos], 2.718281828459045**total)
            for tokens, total in all_outputs(Example(model, batch, b))
        ]
        assert sum(share for _, share in space) == pytest.approx(1)

        def expected(output, space=space):
            return sum(share * Levenshtein.distance(output, truth) for truth, share in space)

        ranked = sorted(expected(output) for output, _ in space)
        assert ranked[0] <= expected(found[b]) <= ranked[0] + 0.05
        assert ranked[-1] > ranked[0] + 0.2, "not every output is an answer"


def test_one_sample_is_chosen_and_a_majority_wins():
    a, b = [1, 2, FREE.eos, FREE.pad], [3, FREE.eos, FREE.pad, FREE.pad]
    exact = ExactMatch(FREE)
    assert least_risk(torch.tensor([[b]]), exact).tolist() == [b]
    assert least_risk(torch.tensor([[b, a, a]]), exact).tolist() == [a]
    assert least_risk(torch.tensor([[b, a, a, b]]), exact).tolist() == [b], "of equal ones the first"
    assert least_risk(torch.tensor([[b, a, a, b]]), exact, also=torch.tensor([[a]])).tolist() == [a]


@VOCABS
def test_with_a_beam_its_outputs_and_the_greedy_one_may_be_chosen(vocab):
    """Of few samples none may be as good, by the samples themselves, as what stands beside them."""
    model, batch, _ = drawn(vocab)
    cost = EditDistance(vocab, normalised=False)
    beside = torch.cat([decode(model, batch).unsqueeze(1), decode_beam(model, batch, width=4)[0]], dim=1)
    others = 0
    for seed in range(8):
        outputs = sample(model, batch, count=2, rng=rng(seed))
        chosen = decode_mbr(model, batch, samples=2, cost=cost, beam=4, rng=rng(seed))
        for b, rows in enumerate(outputs):
            texts, truths = strip(torch.cat([beside[b], rows]), vocab), strip(rows, vocab)
            risks = [sum(Levenshtein.distance(text, truth) for truth in truths) for text in texts]
            best = texts[risks.index(min(risks))]
            assert strip(chosen[b : b + 1], vocab) == [best]
            others += best not in truths
    assert others, "what stands beside the samples is never chosen: the case tells nothing"


@VOCABS
def test_the_best_of_n_is_the_cheapest_against_the_truth(vocab):
    _, batch, outputs = drawn(vocab)
    for cost in costs_of(vocab):
        chosen = least_cost(outputs, batch.targets, cost)
        for b, rows in enumerate(outputs):
            known = [cost(row[None], batch.targets[b : b + 1]).item() for row in rows]
            assert chosen[b].tolist() == rows[known.index(min(known))].tolist(), cost


def test_the_same_seed_gives_the_same_outputs():
    model, batch, _ = drawn(FREE)
    first, second, other = (
        decode_mbr(model, batch, samples=5, cost=EditDistance(FREE), rng=rng(seed)) for seed in (7, 7, 8)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)
