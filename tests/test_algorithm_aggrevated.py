"""AggreVaTeD: its gradient by enumeration of all prefixes, and in plain Python along one."""

import math
from itertools import product

import pytest
import torch
from cases import INSIDE, SETTINGS, make_batch, make_model, rng
from imitation_cases import close, value_and_gradient
from naive import COSTS, Example, strip

from searnn import Batch, Inputs, Vocabulary
from searnn.algorithms.aggrevated import Aggrevated, ExpectedCost
from searnn.costs import EditDistance, Hamming
from searnn.oracles import CopyTarget, OptimalEdit
from searnn.policies import Learned, Reference
from searnn.samplers import UniformCells, UniformTokens

KNOWN = Vocabulary(size=3, pad=3, bos=4, eos=None)
FREE = Vocabulary(size=3, pad=3, bos=4, eos=0)


def scores_after(model, memory, prefix):
    """The scores of the next token as a tensor with gradient."""
    state = model.start(memory)
    for token in [model.vocab.bos, *prefix]:
        scores, state = model.step(memory, state, torch.tensor([[token]]))
    return scores[0, 0]


def enumerated(model, batch):
    """Σ over all prefixes s of d_π(s) Σ_a π(a | s) (Q*(s, a) - min Q*), with d_π held fixed."""
    example = Example(model, batch, 0)
    memory = model.encode(batch.inputs)
    vocab, loss = model.vocab, 0.0
    for length in range(example.limit):
        for prefix in product(vocab.choosable, repeat=length):
            if vocab.eos in prefix:
                continue
            chance = 0.0
            for cell, token in enumerate(prefix):
                chance += scores_after(model, memory, prefix[:cell]).log_softmax(-1)[token].item()
            probs = scores_after(model, memory, prefix).softmax(-1)
            costs = [
                COSTS["hamming"](strip(example.copy([*prefix, token]), vocab), example.truth)
                for token in vocab.choosable
            ]
            regrets = torch.tensor([cost - min(costs) for cost in costs], dtype=torch.float64)
            loss = loss + math.exp(chance) * (probs * regrets).sum()
    return loss


@pytest.mark.parametrize("setting", ["gru", "transformer"])
@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_the_mean_gradient_is_that_of_enumerating_all_prefixes(vocab, setting):
    model = make_model(vocab, seed=1, spread=2.0, **SETTINGS[setting])
    one = make_batch(vocab, lengths=(3 if vocab.eos is None else 2,))
    exact = enumerated(model, one)
    model.zero_grad()
    exact.backward()
    expected = torch.cat([p.grad.flatten() if p.grad is not None else p.flatten() * 0 for p in model.parameters()])
    many = torch.zeros(100, dtype=torch.long)
    inputs = Inputs(one.inputs.values[many], one.inputs.lengths[many])
    batch = Batch(inputs, one.targets[many], one.lengths[many], vocab=vocab)
    draws = [value_and_gradient(Aggrevated(Hamming()), model, batch, seed=seed) for seed in range(40)]
    for found, aim in ((torch.stack([v for v, _ in draws]), exact.detach()),
                       (torch.stack([g for _, g in draws]), expected)):  # fmt: skip
        error = found.std(0) / math.sqrt(len(found))
        assert ((found.mean(0) - aim).abs() <= 5 * error + 1e-9).all()
        assert (found.mean(0) - aim).norm() < 0.1 * aim.norm()  # the errors are small enough to tell something


@pytest.mark.parametrize("oracle", [CopyTarget(), OptimalEdit()], ids=["copy", "optimal"])
@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_along_one_prefix_it_is_the_expected_regret_of_every_cell(vocab, oracle):
    model, batch = make_model(vocab, seed=2), make_batch(vocab, lengths=(4, 2), room=1)
    algorithm = Aggrevated(EditDistance(), roll_in=Learned(), oracle=oracle)
    total = 0.0
    for number in range(2):
        example = Example(model, batch, number)
        finish = example.copy if oracle == CopyTarget() else example.optimal
        own = example.greedy([])
        for cell in range(len(own)):
            scores = example.scores(own[:cell])
            top = sum(math.exp(score) for score in scores.values())
            costs = {
                token: COSTS["edit"](strip(finish([*own[:cell], token]), vocab), example.truth) for token in scores
            }
            lowest = min(costs.values())
            total += sum(math.exp(scores[token]) / top * (costs[token] - lowest) for token in scores)
    assert algorithm(model, batch, rng()).loss.item() == pytest.approx(total / 2, rel=1e-6)


def test_some_tokens_are_an_expectation_over_these_alone():
    model, batch = make_model(KNOWN, seed=2), make_batch(KNOWN, lengths=(4, 2))
    everything = UniformTokens(len(KNOWN.choosable))
    plain = Aggrevated(Hamming(), roll_in=Reference())
    close(
        value_and_gradient(Aggrevated(Hamming(), roll_in=Reference(), tokens=everything), model, batch),
        value_and_gradient(plain, model, batch),
    )
    # Two of them: the true token costs nothing, the other one mistake, with its share of the two.
    some = UniformTokens(2)
    scores, _ = model.trace(model.encode(batch.inputs), batch.targets)
    made = Aggrevated(Hamming(), roll_in=Reference(), tokens=some)
    values = {made(model, batch, rng(seed)).loss.item() for seed in range(40)}
    sums = {0.0}
    for number, length in enumerate((4, 2)):
        for cell in range(length):
            true = int(batch.targets[number, cell])
            gaps = [scores[number, cell, other] - scores[number, cell, true] for other in range(3) if other != true]
            sums = {total + torch.sigmoid(gap).item() for total in sums for gap in gaps}
    assert len(values) > 5
    for value in values:
        assert min(abs(value - total / 2) for total in sums) < 1e-9


def test_every_setting_changes_something():
    model, batch = make_model(FREE, seed=2), make_batch(FREE, lengths=(5, 4, 5, 3), seed=1, room=1)
    plain = Aggrevated(Hamming())(model, batch, rng()).loss.item()
    for changes in (
        {"cost": EditDistance()}, {"roll_in": Learned()}, {"tokens": UniformTokens(2)}, {"cells": UniformCells(1)},
        {"normalisation": "sum"},
    ):  # fmt: skip
        assert Aggrevated(**{"cost": Hamming(), **changes})(model, batch, rng()).loss.item() != plain, changes
    model, batch = make_model(INSIDE, seed=2), make_batch(INSIDE, lengths=(6, 5, 6, 4), seed=1, room=2)
    copied, optimal = (Aggrevated(EditDistance(), oracle=oracle) for oracle in (CopyTarget(), OptimalEdit()))
    assert any(copied(model, batch, rng(s)).loss != optimal(model, batch, rng(s)).loss for s in range(5))


def test_what_is_masked_has_no_part_in_the_expected_regret():
    """By hand: of four candidates two count, with probabilities 2/3 and 1/3 and costs 2 and 5."""
    scores = torch.tensor([[[math.log(2), 7.0, 0.0, -1.0]]], dtype=torch.float64)
    costs = torch.tensor([[[2.0, 0.0, 5.0, 1.0]]], dtype=torch.float64)
    valid = torch.tensor([[[True, False, True, False]]])
    close(ExpectedCost()(scores, costs, valid), torch.tensor([[1.0]], dtype=torch.float64))
    assert ExpectedCost()(scores, costs, valid & False).tolist() == [[0.0]]
