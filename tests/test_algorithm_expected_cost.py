"""REINFORCE, self-critical training, MRT and MIXER against the exact expected cost of all outputs."""

import itertools

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model, rng
from every_output import MODELS, VOCABS, Everything, forced, gradient, naive_cost, padded, run, tiny

from searnn import Batch, Mle
from searnn.algorithms.common import paths
from searnn.algorithms.mixer import Mixer
from searnn.algorithms.mrt import Mrt, repeated_rows
from searnn.algorithms.reinforce import Reinforce
from searnn.algorithms.self_critical import SelfCritical
from searnn.costs import EditDistance, ExactMatch, Hamming
from searnn.decoding import decode
from searnn.schedules import Linear, at
from searnn.types import SearnnError

close = torch.testing.assert_close
vocabs = pytest.mark.parametrize("vocab", VOCABS.values(), ids=VOCABS)
models = pytest.mark.parametrize("kind", MODELS)


def reinforce(model, **settings):
    """With a baseline that is not zero, and not constant."""
    return made(Reinforce, model, **settings)


def disturb(algorithm, seed=0):
    with torch.no_grad():
        for parameter in algorithm.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=rng(seed)))


def made(kind, model, **settings):
    algorithm = kind(**{"cost": EditDistance(), **settings})
    if hasattr(algorithm, "attach"):
        algorithm.attach(model)
        disturb(algorithm)
    return algorithm


@vocabs
@models
@pytest.mark.parametrize("method", ["reinforce", "reinforce-none", "greedy"])
def test_the_mean_gradient_is_that_of_the_expected_cost(vocab, kind, method, monkeypatch):
    """Each output's gradient times its probability, over all outputs: exact whatever the baseline is."""
    model, batch = tiny(vocab, kind)
    every = Everything(model, batch, "edit")
    made = {
        "reinforce": lambda: reinforce(model),
        "reinforce-none": lambda: reinforce(model, baseline="none"),
        "greedy": lambda: SelfCritical(cost=EditDistance()),
    }
    algorithm, mean = made[method](), 0
    for prob, tokens in zip(every.probs, every.outputs, strict=True):
        forced(monkeypatch, padded(tokens, batch))
        mean = mean + prob.detach() * gradient(model, run(algorithm, model, batch).loss)
    expected = gradient(model, every.value)
    assert expected.abs().max() > 1e-3
    close(mean, expected, rtol=1e-6, atol=1e-9)


@vocabs
def test_leave_one_out_has_the_gradient_of_the_expected_cost(vocab, monkeypatch):
    """Over all pairs of outputs."""
    model, batch = tiny(vocab, length=1)
    every = Everything(model, batch, "edit")
    algorithm, mean = SelfCritical(cost=EditDistance(), samples=2, baseline="leave-one-out"), 0
    for one, other in itertools.product(range(len(every.outputs)), repeat=2):
        forced(monkeypatch, *(padded(every.outputs[place], batch) for place in (one, other)))
        weight = (every.probs[one] * every.probs[other]).detach()
        mean = mean + weight * gradient(model, run(algorithm, model, batch).loss)
    close(mean, gradient(model, every.value), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", ["reinforce", "greedy", "leave-one-out"])
@pytest.mark.parametrize("vocab", [VOCABS["known"], VOCABS["free"]], ids=["known", "free"])
def test_many_draws_agree_within_their_standard_error(method, vocab):
    model, batch = tiny(vocab)
    exact = gradient(model, Everything(model, batch, "edit").value)
    algorithm = {
        "reinforce": lambda: reinforce(model, samples=50),
        "greedy": lambda: SelfCritical(cost=EditDistance(), samples=50),
        "leave-one-out": lambda: SelfCritical(cost=EditDistance(), samples=50, baseline="leave-one-out"),
    }[method]()
    draws = torch.stack([gradient(model, run(algorithm, model, batch, seed).loss) for seed in range(30)])
    error = draws.std(0) / len(draws) ** 0.5
    moving = error > 1e-12
    z = ((draws.mean(0) - exact) / error)[moving]
    assert moving.sum() > 50
    assert z.abs().max() < 5
    assert z.square().mean() < 3
    close(draws.mean(0)[~moving], exact[~moving], rtol=0, atol=1e-9)


@vocabs
@pytest.mark.parametrize("normalisation", ["batch", "cell"])
def test_the_loss_is_the_papers_sum(vocab, normalisation, monkeypatch):
    """Several examples and samples, in a loop over both; the entropy bonus and the predictor's error included."""
    model, batch = make_model(vocab, spread=1.5), make_batch(vocab, lengths=(3, 2), room=1)
    algorithm = reinforce(model, samples=3, entropy_bonus=0.3, normalisation=normalisation)
    drawn = paths.draw(model, model.encode(batch.inputs), batch, rng(5), 3)
    forced(monkeypatch, drawn)
    expected, costs = 0, []
    weight, bias = algorithm.predictor.linear.weight[0].detach(), algorithm.predictor.linear.bias[0].detach()
    for example, row in itertools.product(range(2), range(3)):
        tokens = drawn[example, row]
        alone = Batch(batch.inputs, batch.targets[example : example + 1], batch.lengths[:1], vocab=vocab)
        written = [token for token in tokens.tolist() if token != vocab.pad]
        cost = naive_cost("edit", written, alone)
        costs.append(cost)
        scores, _ = model.trace(model.encode(batch.inputs), tokens.expand(2, -1))
        for cell, token in enumerate(written):
            here = scores[example, cell]
            centred = here - here.mean()
            predicted = weight @ centred / (centred.square().sum() + len(here) * 1e-5).sqrt() + bias
            probs = here[list(vocab.choosable)].log_softmax(0)
            chosen = probs[vocab.choosable.index(token)]
            expected = expected + (cost - predicted).detach() * chosen + 0.3 * (probs.exp() * probs).sum()
            cells = len(written) if normalisation == "batch" else 1  # a mean over cells, whichever is the last division
            expected = expected + (cost - predicted.detach()) ** 2 / (2 * cells)
    update = run(algorithm, model, batch)
    close(update.loss, expected / (6 if normalisation == "batch" else int((drawn != vocab.pad).sum())))
    close(update.logs["cost"].item(), sum(costs) / 6)
    assert update.cells == (drawn != vocab.pad).sum()


def test_the_baseline_learns_and_the_network_does_not_feel_it():
    model, batch = make_model(FREE, spread=1.5), make_batch(FREE, room=1)
    algorithm = reinforce(model)
    update = run(algorithm, model, batch)
    with_predictor = gradient(model, update.loss)
    own = torch.autograd.grad(update.loss, list(algorithm.parameters()))
    assert all(part.abs().sum() > 0 for part in own)
    algorithm.predictor.requires_grad_(False)
    close(with_predictor, gradient(model, run(algorithm, model, batch).loss))
    algorithm = Reinforce(cost=Hamming(), samples=8)
    algorithm.attach(model)
    optimizer = torch.optim.SGD(algorithm.parameters(), 0.5)
    errors = []
    for seed in range(40):
        update = run(algorithm, model, batch, seed)
        optimizer.zero_grad()
        update.loss.backward(inputs=list(algorithm.parameters()))
        optimizer.step()
        errors.append(update.logs["baseline_error"].item())
    assert sum(errors[-5:]) / 5 < 0.5 * errors[0], "no better than a constant 0"


def test_self_critical_does_nothing_where_the_sample_is_the_greedy_output(monkeypatch):
    model, batch = make_model(FREE), make_batch(FREE, room=1)
    forced(monkeypatch, decode(model, batch).unsqueeze(1))
    update = run(SelfCritical(cost=EditDistance()), model, batch)
    assert gradient(model, update.loss).abs().max() == 0
    close(update.logs["cost"], update.logs["baseline"])


@vocabs
@models
def test_mrt_over_all_outputs_is_the_expected_cost(vocab, kind):
    """So many samples that every output is among them, most of them often: each must count once."""
    model, batch = tiny(vocab, kind, length=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.3)
    every = Everything(model, batch, "edit")
    update = run(Mrt(cost=EditDistance(), samples=600, sharpness=1.0, with_truth=False), model, batch)
    assert update.logs["candidates"] == len(every.outputs) < 600
    close(update.loss, every.value)
    close(gradient(model, update.loss), gradient(model, every.value), rtol=1e-6, atol=1e-9)


@vocabs
@pytest.mark.parametrize("with_truth", [True, False])
@pytest.mark.parametrize("sharpness", [0.1, 2.0])
def test_mrt_is_a_softmax_over_the_distinct_candidates(vocab, with_truth, sharpness):
    model, batch = tiny(vocab)
    every = Everything(model, batch, "edit")
    algorithm = Mrt(cost=EditDistance(), samples=4, sharpness=sharpness, with_truth=with_truth)
    update = run(algorithm, model, batch, 7)
    drawn = paths.draw(model, model.encode(batch.inputs), batch, rng(7), 4)[0].tolist()
    candidates = {tuple(token for token in row if token != vocab.pad) for row in drawn}
    if with_truth:
        candidates.add(tuple(token for token in batch.targets[0].tolist() if token != vocab.pad))
    places = [every.outputs.index(list(tokens)) for tokens in candidates]
    weights = (sharpness * every.log_probs[places]).softmax(0)
    close(update.loss, (weights * every.costs[places]).sum())
    close(gradient(model, update.loss), gradient(model, (weights * every.costs[places]).sum()))


def test_repeated_rows():
    rows = torch.tensor([[[1, 2], [1, 3], [1, 2], [1, 2]], [[1, 2], [2, 1], [0, 0], [2, 1]]])
    assert repeated_rows(rows).tolist() == [[False, False, True, True], [False, False, False, True]]


@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
@pytest.mark.parametrize("normalisation", ["batch", "cell", "sum"])
def test_mixer_with_no_reinforce_cells_is_mle_and_with_all_is_reinforce(vocab, normalisation):
    model, batch = make_model(vocab, spread=1.5), make_batch(vocab, lengths=(4, 2, 3), room=1)
    every_cell = batch.targets.shape[1]
    mixer = made(Mixer, model, cross_entropy_cells=every_cell, normalisation=normalisation)
    mle = Mle(normalisation=normalisation)
    close(run(mixer, model, batch).loss, run(mle, model, batch).loss)
    close(gradient(model, run(mixer, model, batch).loss), gradient(model, run(mle, model, batch).loss))
    mixer.cross_entropy_cells = 0
    plain = reinforce(model, normalisation=normalisation)
    assert torch.equal(run(mixer, model, batch).loss, run(plain, model, batch).loss)
    assert torch.equal(gradient(model, run(mixer, model, batch).loss), gradient(model, run(plain, model, batch).loss))


@vocabs
def test_mixers_mean_gradient_is_cross_entropy_and_the_expected_cost_after_the_truths_prefix(vocab, monkeypatch):
    model, batch = tiny(vocab)
    mixer = made(Mixer, model, cross_entropy_cells=1, cross_entropy_weight=0.7)
    every = Everything(model, batch, "edit")
    first = int(batch.targets[0, 0])
    begun = torch.tensor([tokens[0] == first for tokens in every.outputs])
    share = every.probs[begun].sum()
    mean = 0
    for place in begun.nonzero().flatten().tolist():
        forced(monkeypatch, padded(every.outputs[place], batch))
        weight = (every.probs[place] / share).detach()
        mean = mean + weight * gradient(model, run(mixer, model, batch).loss)
    exact = (every.probs * every.costs)[begun].sum() / share - 0.7 * share.log()
    close(mean, gradient(model, exact), rtol=1e-6, atol=1e-9)


def test_mixers_border_follows_its_schedule():
    mixer = Mixer(cost=Hamming(), cross_entropy_cells=Linear(3, 0, 6), baseline="none")
    borders = [at(mixer, step).cells for step in range(9)]
    assert borders == [3, 2, 2, 1, 1, 0, 0, 0, 0]
    assert at(mixer, 1) == at(mixer, 2) != at(mixer, 3)
    assert hash(at(mixer, 1)) == hash(at(mixer, 2))
    model, batch = make_model(FREE), make_batch(FREE)
    fixed = Mixer(cost=Hamming(), cross_entropy_cells=2, baseline="none")
    assert torch.equal(run(at(mixer, 2), model, batch).loss, run(fixed, model, batch).loss)
    share = run(fixed, model, batch).logs["cross_entropy_share"]
    assert 0 < share < 1
    with pytest.raises(SearnnError, match="schedule"):
        run(mixer, model, batch)


@pytest.mark.parametrize(
    ("kind", "base", "change"),
    [
        (Reinforce, {}, {"samples": 3}),
        (Reinforce, {}, {"baseline": "none"}),
        (Reinforce, {}, {"entropy_bonus": 0.1}),
        (Reinforce, {}, {"normalisation": "cell"}),
        (Reinforce, {}, {"cost": ExactMatch()}),
        (Mixer, {"cross_entropy_cells": 2}, {"cross_entropy_cells": 1}),
        (Mixer, {"cross_entropy_cells": 2}, {"cross_entropy_weight": 0.5}),
        (Mixer, {"cross_entropy_cells": 2}, {"samples": 3}),
        (Mixer, {"cross_entropy_cells": 2}, {"baseline": "none"}),
        (Mixer, {"cross_entropy_cells": 2}, {"entropy_bonus": 0.1}),
        (Mixer, {"cross_entropy_cells": 2}, {"normalisation": "cell"}),
        (SelfCritical, {}, {"samples": 3}),
        (SelfCritical, {"samples": 3}, {"baseline": "leave-one-out"}),
        (SelfCritical, {}, {"normalisation": "cell"}),
        (Mrt, {}, {"samples": 5}),
        (Mrt, {}, {"sharpness": 0.5}),
        (Mrt, {}, {"with_truth": False}),
    ],
)
def test_every_setting_changes_the_gradient(kind, base, change):
    model, batch = make_model(FREE, spread=1.5), make_batch(FREE, lengths=(4, 3, 2), room=1)
    algorithms = (made(kind, model, **settings) for settings in (base, {**base, **change}))
    plain, changed = (gradient(model, run(algorithm, model, batch).loss) for algorithm in algorithms)
    assert not torch.allclose(plain, changed)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    ("kind", "settings", "told"),
    [
        (Reinforce, {"samples": 0}, "samples is 0, it must be a whole number of at least 1"),
        (Reinforce, {"baseline": "greedy"}, "'greedy', it must be learned or none"),
        (Reinforce, {"entropy_bonus": -1.0}, "entropy_bonus is -1.0"),
        (Mixer, {"cross_entropy_cells": -1}, "cross_entropy_cells is -1"),
        (Mixer, {"cross_entropy_weight": float("nan")}, "cross_entropy_weight is nan"),
        (SelfCritical, {"baseline": "leave-one-out"}, "samples is 1, give at least 2"),
        (SelfCritical, {"baseline": "learned"}, "'learned', it must be greedy or leave-one-out"),
        (SelfCritical, {"samples": 0}, "samples is 0"),
        (Mrt, {"sharpness": 0.0}, r"sharpness is 0.0, it must be a number above 0"),
        (Mrt, {"samples": 1, "with_truth": False}, "a single candidate has no gradient"),
    ],
)
def test_refusals(kind, settings, told):
    with pytest.raises(SearnnError, match=told):
        kind(cost=EditDistance(), **settings)


def test_a_learned_baseline_must_be_attached():
    with pytest.raises(SearnnError, match=r"attach\(model\)"):
        run(Reinforce(cost=EditDistance()), make_model(FREE), make_batch(FREE))
