"""SEARN, LOLS and bandit LOLS: interpolated policies in plain Python, coins per roll-out, unbiased single tries."""

import copy

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, Untouchable, make_batch, make_model, rng
from imitation_cases import attached, close, value_and_gradient
from naive import Example

from searnn import Encoded, Searnn, SearnnError, schedules, search
from searnn.algorithms import bandit_lols
from searnn.algorithms.bandit_lols import BanditLols, OneToken
from searnn.algorithms.lols import Lols
from searnn.algorithms.searn import Searn
from searnn.costs import EditDistance, Hamming
from searnn.losses import ConsistentLoss, KLLoss, LogLoss
from searnn.oracles import CopyTarget, OptimalEdit
from searnn.policies import Learned, Reference, copies
from searnn.policies.copies import Interpolated
from searnn.samplers import UniformCells, UniformTokens
from searnn.schedules import Linear

vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
models = pytest.mark.parametrize("setting", ["attention", "transformer"])


def searn(**changes):
    return Searn(**{"cost": EditDistance(), "loss": KLLoss(2.0), "rounds": 3, "round_steps": 2, **changes})


def naive_interpolation(models, batch, number, tokens, draws, reference, shares):
    """One draw per token says who writes it: the reference first, then the models in turn."""
    examples = [Example(model, batch, number) for model in models]
    tokens = list(tokens)
    while not examples[0].ended(tokens):
        drawn = draws[len(tokens)]
        if drawn < reference:
            tokens.append(examples[0].copy(tokens)[len(tokens)])
            continue
        edges = [reference + sum(shares[: number + 1]) for number in range(len(shares))]
        writer = next(example for example, edge in zip(examples, edges, strict=True) if drawn < edge)
        scores = writer.scores(tokens)
        tokens.append(max(scores, key=scores.get))
    return tokens


@vocabs
@pytest.mark.parametrize("setting", ["gru", "transformer"])
def test_a_draw_per_token_decides_who_writes_it(vocab, setting):
    components = [make_model(vocab, seed=seed, **SETTINGS[setting]) for seed in (1, 2)]
    batch = make_batch(vocab, lengths=(4, 2), room=1)
    reference, shares = 0.3, (0.4, 0.3)
    policy = Interpolated(CopyTarget(), reference, tuple(components), shares)
    learner = make_model(vocab, seed=9, **SETTINGS[setting])
    prefix = policy.roll_in(Encoded(learner, None), batch, rng(5))
    width = batch.targets.shape[1]
    draws = torch.rand(2, 1, width, generator=rng(5))
    for number in range(2):
        expected = naive_interpolation(components, batch, number, [], draws[number, 0].tolist(), reference, shares)
        assert prefix[number, : len(expected)].tolist() == expected
        assert (prefix[number, len(expected) :] == vocab.pad).all()

    found = search(
        learner, batch, roll_in=Reference(), roll_out=Remembering(policy), cost=EditDistance(),
        tokens=UniformTokens(2), rng=rng(6),
    )  # fmt: skip
    draws = torch.rand(2, found.tokens[0].numel(), width, generator=rng(7))
    for number, cell, slot in found.valid.nonzero().tolist():
        start = [*found.prefix[number, : found.cells[number, cell]].tolist(), int(found.tokens[number, cell, slot])]
        own = draws[number, cell * found.tokens.shape[2] + slot].tolist()
        expected = naive_interpolation(components, batch, number, start, own, reference, shares)
        assert found.outputs[number, cell, slot, : len(expected)].tolist() == expected


class Remembering:
    """A roll-out whose random numbers are known."""

    def __init__(self, policy):
        self.policy = policy

    def roll_in(self, *given):
        raise NotImplementedError

    def roll_out(self, encoded, branches, batch, generator):
        return self.policy.roll_out(encoded, branches, batch, rng(7))


@vocabs
@models
def test_one_round_or_beta_0_is_searnn_with_the_reference(vocab, setting):
    model, batch = make_model(vocab, spread=1.5, **SETTINGS[setting]), make_batch(vocab, room=1)
    expected = value_and_gradient(Searnn(Reference(), Reference(), EditDistance(), KLLoss(2.0)), model, batch)
    for made, step in ((searn(rounds=1), 100), (searn(beta=0.0), 5), (searn(), 1)):
        close(value_and_gradient(attached(made, model), model, batch, step=step), expected)


@vocabs
@models
def test_beta_1_is_searnn_with_the_model_as_the_round_before_left_it(vocab, setting):
    model, batch = make_model(vocab, seed=2, spread=2.0, **SETTINGS[setting]), make_batch(vocab, room=1)
    made = attached(searn(beta=1.0), model)
    learned = Searnn(Learned(), Learned(), EditDistance(), KLLoss(2.0))
    close(value_and_gradient(made, model, batch, step=2), value_and_gradient(learned, model, batch))
    frozen = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-0.7)
    found = search(frozen, batch, roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), rng=rng())
    scores, _ = model.trace(model.encode(batch.inputs), found.prefix)
    losses = KLLoss(2.0)(scores.gather(2, found.tokens), found.costs.double(), found.valid)
    close(value_and_gradient(made, model, batch, step=3)[0], losses.sum().detach() / len(losses))


@pytest.mark.parametrize("beta", [0.2, 0.5])
def test_the_shares_are_those_of_interpolating_round_by_round(beta):
    made = attached(searn(beta=beta, rounds=4), make_model(KNOWN))
    policy = {"reference": 1.0}
    for number in range(1, 4):
        policy = {name: (1 - beta) * share for name, share in policy.items()}
        policy[number - 1] = beta
        found = made.policy(number)
        assert found.reference_weight == pytest.approx(policy["reference"])
        assert found.weights == pytest.approx([policy[slot] for slot in range(number)])
        assert found.reference_weight + sum(found.weights) == pytest.approx(1)
        assert all(a is b for a, b in zip(found.models, made.snapshots.copies, strict=False))
    last = attached(searn(beta=1.0, rounds=4), make_model(KNOWN))
    assert last.policy(3).weights == (1.0,)  # who has no share does not step
    assert last.policy(3).models == (last.snapshots.of(2),)


def test_rounds_begin_with_what_was_learned_and_the_last_goes_on():
    made = attached(searn(), make_model(KNOWN))
    assert [made.at(step).slot for step in range(9)] == [None, None, 0, None, 1, None, None, None, None]
    assert made.at(0) == made.at(1) != made.at(3)
    assert made.at(5) == made.at(100)
    assert hash(made.at(5)) == hash(made.at(100))
    assert len(made.snapshots.copies) == 2
    with pytest.raises(SearnnError, match="call the algorithm's attach"):
        searn().at(2)


def test_every_setting_of_searn_changes_something():
    model = make_model(FREE, seed=2)
    batch = make_batch(FREE, lengths=(5, 4, 5, 3), seed=1, room=1)

    def value(**changes):
        made = attached(searn(**changes), make_model(FREE, seed=3))
        return value_and_gradient(made, model, batch, step=5)[0].item()

    plain = value()
    for changes in (
        {"beta": 0.9}, {"rounds": 2}, {"round_steps": 3}, {"cost": Hamming()}, {"loss": LogLoss()},
        {"oracle": OptimalEdit()}, {"tokens": UniformTokens(2)}, {"cells": UniformCells(1)}, {"normalisation": "sum"},
    ):  # fmt: skip
        assert value(**changes) != plain, changes


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"beta": 1.5}, "beta is 1.5, it must be a number of at least 0 and at most 1"),
        ({"rounds": 0}, "rounds is 0, it must be a whole number of at least 1"),
        ({"round_steps": 0}, "round_steps is 0, it must be a whole number of at least 1"),
    ],
)
def test_what_makes_no_sense_to_searn_is_refused(settings, told):
    with pytest.raises(SearnnError, match=told):
        searn(**settings)


class Spy:
    """A loss that keeps the costs it is given."""

    def __call__(self, scores, costs, valid):
        self.costs, self.valid = costs, valid
        return scores.sum(-1) * 0


@vocabs
def test_lols_tosses_a_coin_for_every_roll_out(vocab):
    model, batch = make_model(vocab, seed=4), make_batch(vocab, lengths=(5, 4, 5, 3), room=1)
    costs = []
    for policy in (Learned(), Reference()):
        found = search(model, batch, roll_in=Learned(), roll_out=policy, cost=Hamming(), rng=rng())
        costs.append(found.costs.double())
    spy = Spy()
    Lols(Hamming(), spy)(model, batch, rng())
    is_learned, is_reference = (spy.costs == side for side in costs)
    assert (is_learned | is_reference | ~spy.valid).all()
    only = spy.valid & (costs[0] != costs[1])
    both = (only & is_learned).any(-1) & (only & is_reference).any(-1)
    assert both.any()  # within one cell
    share = (only & is_reference).sum() / only.sum()
    assert 0.3 < share < 0.7


@vocabs
@models
def test_lols_without_a_coin_is_searnn(vocab, setting):
    model, batch = make_model(vocab, seed=2, spread=2.0, **SETTINGS[setting]), make_batch(vocab, room=1)
    for probability, roll_out in ((0.0, Learned()), (1.0, Reference(OptimalEdit()))):
        lols = Lols(EditDistance(), KLLoss(2.0), OptimalEdit(), probability, normalisation="cell")
        same = Searnn(Learned(), roll_out, EditDistance(), KLLoss(2.0), normalisation="cell")
        close(value_and_gradient(lols, model, batch), value_and_gradient(same, model, batch))


def test_every_setting_of_lols_changes_something():
    model, batch = make_model(FREE, seed=2), make_batch(FREE, lengths=(5, 4, 5, 3), seed=1, room=1)
    given = {"cost": EditDistance(), "loss": KLLoss(2.0)}
    plain = value_and_gradient(Lols(**given), model, batch)[0].item()
    for changes in (
        {"cost": Hamming()}, {"loss": LogLoss()}, {"oracle": OptimalEdit()}, {"reference_probability": 0.9},
        {"tokens": UniformTokens(2)}, {"cells": UniformCells(1)}, {"normalisation": "sum"},
    ):  # fmt: skip
        assert value_and_gradient(Lols(**{**given, **changes}), model, batch)[0].item() != plain, changes


@pytest.mark.parametrize("make", [lambda **more: Lols(Hamming(), LogLoss(), **more),
                                  lambda **more: BanditLols(Hamming(), **more)], ids=["lols", "bandit"])  # fmt: skip
def test_the_coin_may_follow_a_schedule_and_must_be_a_probability(make):
    made = make(reference_probability=Linear(1.0, 0.0, 10))
    assert schedules.at(made, 5) == make(reference_probability=0.5)
    with pytest.raises(SearnnError, match="reference_probability is 2"):
        make(reference_probability=2.0)


@vocabs
@models
def test_the_mean_over_all_tries_of_the_bandit_is_all_tokens_at_all_cells(vocab, setting, monkeypatch):
    """Each cell with each token once, as likely as the others: then the gradient is that of LOLS."""
    model = make_model(vocab, seed=2, spread=1.0, **SETTINGS[setting])
    batch = make_batch(vocab, lengths=(4,), room=1)
    found = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=Hamming(), rng=rng())
    cells = int(found.valid.any(-1).sum())
    tokens = found.tokens[0, 0].tolist()
    gradients, values = [], []
    for cell in range(cells):
        for token in tokens:
            there, that = torch.tensor([[cell]]), torch.tensor([[[token]]])
            monkeypatch.setattr(bandit_lols, "UniformCells", lambda n, there=there: lambda *given: there)
            monkeypatch.setattr(bandit_lols, "OneToken", lambda that=that: lambda *given: that)
            algorithm = BanditLols(Hamming(), reference_probability=0.0)
            value, gradient = value_and_gradient(algorithm, model, batch)
            values.append(value)
            gradients.append(gradient)
    lols = Lols(Hamming(), ConsistentLoss(), reference_probability=0.0)
    close((torch.stack(values).mean(), torch.stack(gradients).mean(0)), value_and_gradient(lols, model, batch))


@vocabs
def test_the_bandit_draws_cells_and_tokens_evenly(vocab, monkeypatch):
    model = make_model(vocab, seed=2)
    one = make_batch(vocab, lengths=(4,), room=1)
    prefix = Learned().roll_in(Encoded(model, model.encode(one.inputs)), one, rng())
    cells = int((prefix != vocab.pad).sum())
    seen = []
    real = bandit_lols.search
    monkeypatch.setattr(bandit_lols, "search", lambda *a, **b: seen.append(real(*a, **b)) or seen[-1])
    many = 3000
    index = torch.zeros(many, dtype=torch.long)
    inputs = type(one.inputs)(one.inputs.values[index], one.inputs.lengths[index])
    batch = type(one)(inputs, one.targets[index], one.lengths[index], vocab=vocab)
    BanditLols(Hamming(), reference_probability=1.0)(model, batch, rng())
    choosable = list(vocab.choosable)
    pairs = [(c, choosable.index(t)) for c, t in zip(seen[0].cells[:, 0].tolist(), seen[0].tokens[:, 0, 0].tolist(),
                                                    strict=True)]  # fmt: skip
    expected = many / (cells * len(choosable))
    counts = torch.zeros(cells, len(choosable))
    for cell, token in pairs:
        counts[cell, token] += 1
    freedom = counts.numel() - 1
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


def test_every_setting_of_the_bandit_changes_something():
    model, batch = make_model(FREE, seed=2), make_batch(FREE, lengths=(5, 4, 5, 3, 5, 4), seed=1, room=1)
    plains = [value_and_gradient(BanditLols(Hamming()), model, batch, seed=seed)[0].item() for seed in range(3)]
    for changes in (
        {"cost": EditDistance()}, {"loss": LogLoss(ties="random")}, {"oracle": OptimalEdit()},
        {"reference_probability": 1.0}, {"normalisation": "cell"},
    ):  # fmt: skip
        made = BanditLols(**{"cost": Hamming(), **changes})
        values = [value_and_gradient(made, model, batch, seed=seed)[0].item() for seed in range(3)]
        assert values != plains, changes


@vocabs
def test_one_token_is_drawn_for_every_cell_by_itself(vocab):
    cells = torch.arange(3).expand(600, -1)
    batch = make_batch(vocab, lengths=(3,) * 600)
    tokens = OneToken()(torch.zeros(600, 3, vocab.size), batch, cells, rng(1))
    assert tokens.shape == (600, 3, 1)
    even = 600 / len(vocab.choosable)
    for cell in range(3):
        counts = tokens[:, cell, 0].bincount(minlength=vocab.size)[list(vocab.choosable)]
        assert counts.sum() == 600
        assert ((counts - even).square() / even).sum() < 20
    assert 0.1 < (tokens[:, 0] == tokens[:, 1]).double().mean() < 0.4


@torch.no_grad()
def test_a_draw_of_exactly_0_is_the_first_models_where_the_reference_has_no_share(monkeypatch):
    """And the reference, which has no share, is not asked."""
    components = [make_model(FREE, seed=seed) for seed in (1, 2)]
    batch = make_batch(FREE, lengths=(4, 2), room=1)
    monkeypatch.setattr(copies, "uniform", lambda shape, rng, device: torch.zeros(shape))
    encoded = Encoded(components[0], components[0].encode(batch.inputs))
    found = Interpolated(Untouchable(), 0.0, tuple(components), (0.5, 0.5)).roll_in(encoded, batch, rng())
    assert torch.equal(found, Learned().roll_in(encoded, batch, rng()))
