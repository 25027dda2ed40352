"""The paper's identities: where SEARNN is maximum likelihood, label smoothing, or one of its own halves."""

import math

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model, rng
from torch.nn import functional

from searnn import Mle, Searnn, search
from searnn.costs import EditDistance, Hamming
from searnn.losses import KLLoss, LogLoss
from searnn.oracles import OptimalEdit
from searnn.policies import Focused, Learned, Mixed, Reference, Sampled
from searnn.samplers import AllTokens, UniformTokens

vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
close = torch.testing.assert_close


def value_and_gradient(algorithm, model, batch, seed=0):
    model.zero_grad()
    loss = algorithm(model, batch, rng(seed)).loss
    loss.backward()
    return loss.detach(), torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@vocabs
@pytest.mark.parametrize("normalisation", ["batch", "cell", "sum"])
@pytest.mark.parametrize("ties", ["random", "model"])
def test_ll_with_reference_roll_in_and_roll_out_under_hamming_is_mle(vocab, normalisation, ties):
    model, batch = make_model(vocab, spread=1.5), make_batch(vocab, lengths=(5, 3, 1), room=1)
    searnn = Searnn(Reference(), Reference(), Hamming(), LogLoss(ties=ties), normalisation=normalisation)
    found = value_and_gradient(searnn, model, batch)
    close(found, value_and_gradient(Mle(normalisation=normalisation), model, batch))


@vocabs
def test_mle_is_cross_entropy(vocab):
    model, batch = make_model(vocab, spread=1.5), make_batch(vocab, lengths=(5, 3, 1))
    scores, _ = model.trace(model.encode(batch.inputs), batch.targets)
    for token in (vocab.pad, vocab.bos):
        if token < vocab.size:
            scores[..., token] = -math.inf
    expected = functional.cross_entropy(
        scores.flatten(0, 1), batch.targets.flatten(), ignore_index=vocab.pad, reduction="sum"
    )
    close(Mle()(model, batch, rng()).loss, expected / 3)
    cells = (batch.targets != vocab.pad).sum()
    close(Mle(normalisation="cell")(model, batch, rng()).loss, expected / cells)
    close(Mle(normalisation="sum")(model, batch, rng()).loss, expected)


def test_label_smoothing_is_the_librarys():
    model, batch = make_model(FREE, spread=1.5), make_batch(FREE)
    scores, _ = model.trace(model.encode(batch.inputs), batch.targets)
    expected = functional.cross_entropy(
        scores.flatten(0, 1), batch.targets.flatten(), ignore_index=FREE.pad, reduction="sum", label_smoothing=0.2
    )
    close(Mle(label_smoothing=0.2, normalisation="sum")(model, batch, rng()).loss, expected)


@pytest.mark.parametrize("alpha", [0.5, 3.0])
def test_kl_there_is_label_smoothing_with_the_smoothing_that_alpha_gives(alpha):
    """The truth costs 0 and every other token 1, so P_C is (1 - ε) one-hot + ε uniform with this ε."""
    model, batch = make_model(KNOWN, spread=1.5), make_batch(KNOWN)
    smoothing = KNOWN.size * math.exp(-alpha) / (1 + (KNOWN.size - 1) * math.exp(-alpha))
    searnn = Searnn(Reference(), Reference(), Hamming(), KLLoss(alpha))
    close(value_and_gradient(searnn, model, batch), value_and_gradient(Mle(smoothing), model, batch))


@vocabs
@pytest.mark.parametrize("loss", [LogLoss(), KLLoss(2.0)], ids=["ll", "kl"])
def test_all_tokens_sampled_is_the_full_loss(vocab, loss):
    model, batch = make_model(vocab, spread=1.5), make_batch(vocab, room=1)
    everything = UniformTokens(len(vocab.choosable))
    results = [
        value_and_gradient(Searnn(Learned(), Learned(), EditDistance(), loss, tokens=tokens), model, batch)
        for tokens in (AllTokens(), everything)
    ]
    close(*results)


def run(model, batch, roll_in, roll_out, seed=0):
    return search(model, batch, roll_in=roll_in, roll_out=roll_out, cost=EditDistance(), rng=rng(seed))


def same(left, right):
    return torch.equal(left.prefix, right.prefix) and torch.equal(left.outputs, right.outputs)


@vocabs
@pytest.mark.parametrize("per", ["example", "cell", "branch", "token"])
def test_mixed_with_probability_zero_or_one_is_its_halves(vocab, per):
    model, batch = make_model(vocab, seed=1), make_batch(vocab, lengths=(5, 4, 2), room=1)
    for oracle in (Reference(), Reference(OptimalEdit())):
        never, always = (Mixed(oracle, probability, per) for probability in (0.0, 1.0))
        assert same(run(model, batch, Learned(), never), run(model, batch, Learned(), Learned()))
        if per != "token" or oracle == Reference():  # the optimal oracle may change its mind among equals
            assert same(run(model, batch, Learned(), always), run(model, batch, Learned(), oracle))
        reference, mixed = run(model, batch, Learned(), oracle), run(model, batch, Learned(), always)
        close(reference.costs, mixed.costs)


@vocabs
@pytest.mark.parametrize("per", ["example", "token"])
def test_mixed_roll_in_with_probability_zero_or_one_is_its_halves(vocab, per):
    model, batch = make_model(vocab, seed=1), make_batch(vocab, lengths=(5, 4, 2), room=1)
    never, always = (Mixed(Reference(), probability, per) for probability in (0.0, 1.0))
    assert same(run(model, batch, never, Learned()), run(model, batch, Learned(), Learned()))
    assert same(run(model, batch, always, Learned()), run(model, batch, Reference(), Learned()))


@vocabs
def test_focused_costing_with_no_steps_is_reference_and_with_all_steps_learned(vocab):
    model, batch = make_model(vocab, seed=1), make_batch(vocab, lengths=(5, 4, 2), room=1)
    assert same(run(model, batch, Learned(), Focused(0)), run(model, batch, Learned(), Reference()))
    width = batch.targets.shape[1]
    for steps in (width - 1, width, width + 5):
        assert same(run(model, batch, Learned(), Focused(steps)), run(model, batch, Learned(), Learned()))


def test_sampling_at_a_low_temperature_is_greedy():
    model, batch = make_model(FREE, seed=1), make_batch(FREE, lengths=(5, 4, 2), room=1)
    assert same(run(model, batch, Sampled(1e-4), Sampled(1e-4)), run(model, batch, Learned(), Learned()))


@pytest.mark.parametrize("oracle", [Reference(), Reference(OptimalEdit())], ids=["copy", "optimal"])
@pytest.mark.parametrize("cost", [Hamming(), EditDistance()], ids=["hamming", "edit"])
@vocabs
def test_the_closed_form_is_used_and_equals_the_long_way(vocab, cost, oracle, monkeypatch):
    class LongWay:
        roll_in, roll_out = oracle.roll_in, oracle.roll_out

    model, batch = make_model(vocab, seed=1), make_batch(vocab, lengths=(5, 4, 2), room=1)
    real = type(cost).__call__
    monkeypatch.setattr(type(cost), "__call__", lambda self, *given: called.append(self) or real(self, *given))
    results, calls = [], []
    for policy in (oracle, LongWay()):
        called = []
        results.append(search(model, batch, roll_in=Learned(), roll_out=policy, cost=cost, rng=rng()).costs)
        calls.append(len(called))
    assert torch.equal(*results)
    has_form = cost == EditDistance() or oracle == Reference()
    assert calls == [0 if has_form else 1, 1]
