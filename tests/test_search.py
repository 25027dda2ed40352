"""`search` equals a triple loop over examples, cells and tokens, for every choice on every axis and every budget."""

from dataclasses import dataclass, replace
from itertools import product

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, Untouchable, make_batch, make_model, readings, rng
from triple_loop import check

from searnn import Encoded, search
from searnn.costs import EditDistance, Hamming, from_callable
from searnn.decoding import loop
from searnn.oracles import CopyTarget, OptimalEdit
from searnn.policies import Focused, Learned, Mixed, Reference, Sampled
from searnn.samplers import (
    AllCells,
    AllTokens,
    BiasedTokens,
    NeighbourTokens,
    PolicyTokens,
    TargetedTokens,
    TopTokens,
    UncertainCells,
    UniformCells,
    UniformTokens,
    union,
)
from searnn.searching import bind, branch, sample_cells, waves
from searnn.searching.branching import repeated
from searnn.types import Vocabulary

tasks = {"known": (KNOWN, 0), "free": (FREE, 2), "tight": (FREE, -1), "inside": (INSIDE, 1)}

roll_ins = {
    "reference": Reference(),
    "learned": Learned(),
    "sampled": Sampled(),
    "mixed-example": Mixed(),
    "mixed-token": Mixed(per="token"),
    "mixed-token-optimal": Mixed(per="token", reference=Reference(OptimalEdit())),
}
roll_outs = {
    "reference": Reference(CopyTarget()),
    "optimal": Reference(OptimalEdit()),
    "learned": Learned(),
    "beam": Learned(beam=2),
    "sampled": Sampled(),
    "mixed-example": Mixed(),
    "mixed-cell": Mixed(per="cell"),
    "mixed-branch": Mixed(per="branch", reference=Reference(OptimalEdit())),
    "mixed-token": Mixed(per="token"),
    "mixed-token-optimal": Mixed(per="token", reference=Reference(OptimalEdit())),
    "focused-1": Focused(1),
    "focused-2-optimal": Focused(2, reference=Reference(OptimalEdit())),
}


@pytest.mark.parametrize("task", tasks)
@pytest.mark.parametrize("roll_out", roll_outs)
@pytest.mark.parametrize("roll_in", roll_ins)
def test_equals_the_triple_loop(roll_in, roll_out, task):
    vocab, room = tasks[task]
    batch = make_batch(vocab, lengths=(3, 2, 1), room=room)
    check(make_model(vocab, seed=3), batch, roll_ins[roll_in], roll_outs[roll_out])


@pytest.mark.parametrize(
    ("task", "seed", "spread"), [("known", 1, 2), ("free", 4, 4), ("tight", 0, 4), ("inside", 5, 2)]
)
@pytest.mark.parametrize("roll_out", ["learned", "beam"])
def test_what_a_beam_rolled_in_is_not_what_is_rolled_out(roll_out, task, seed, spread):
    """Neither greedy decoding nor a beam need go on from a prefix of a beam's output as that output does."""
    vocab, room = tasks[task]
    model, batch = make_model(vocab, seed=seed, spread=spread), make_batch(vocab, lengths=(5, 4, 2), room=room)
    found = check(model, batch, Learned(beam=2), roll_outs[roll_out])
    again = found.tokens == found.prefix.gather(1, found.cells).unsqueeze(-1)
    assert (found.outputs != found.prefix[:, None, None]).any(-1)[again & found.valid].any()


@pytest.mark.parametrize("roll_out", roll_outs)
def test_masked_branches_are_pad(roll_out):
    model, batch = make_model(FREE, seed=3), make_batch(FREE, lengths=(3, 2, 1), room=2)
    settings = {"roll_in": Learned(), "roll_out": roll_outs[roll_out], "cost": EditDistance()}
    found = search(model, batch, tokens=UniformTokens(3), rng=rng(), **settings)
    assert (found.outputs[~found.valid] == FREE.pad).all()
    assert not found.valid.all()


token_samplers = {
    "all": AllTokens(),
    "uniform": UniformTokens(3),
    "policy": PolicyTokens(2),
    "biased": BiasedTokens(3),
    "top": TopTokens(2),
    "neighbours": NeighbourTokens(3),
    "targeted": TargetedTokens(3, threshold=0.5),
    "union": union(TopTokens(2), NeighbourTokens(3)),
    "one": TopTokens(1),
}
cell_samplers = {"all": AllCells(), "uniform": UniformCells(2), "uncertain": UncertainCells(3), "many": UniformCells(9)}


@pytest.mark.parametrize("task", ["known", "free"])
@pytest.mark.parametrize("tokens", token_samplers)
@pytest.mark.parametrize("cells", cell_samplers)
def test_samplers_equal_the_triple_loop(tokens, cells, task):
    vocab, room = tasks[task]
    batch = make_batch(vocab, lengths=(4, 3, 1), room=room)
    samplers = {"tokens": token_samplers[tokens], "cells": cell_samplers[cells]}
    result = check(make_model(vocab, seed=1), batch, Learned(), Mixed(per="branch"), seed=5, **samplers)
    truth = torch.where(batch.targets == vocab.pad, vocab.eos or 0, batch.targets).gather(1, result.cells)
    assert (result.tokens == truth.unsqueeze(-1)).any(-1)[result.valid.any(-1)].all()


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_model_setting(setting):
    settings = SETTINGS[setting]
    pixels = settings.get("pixels", False)
    for vocab in (KNOWN, FREE):
        model = make_model(vocab, seed=2, spread=3.0, **settings)
        batch = make_batch(vocab, lengths=(4, 2), room=1, pixels=pixels)
        check(model, batch, Learned(), Learned(), cost_names=("edit",))


@pytest.mark.parametrize("task", tasks)
def test_one_cell(task):
    vocab, room = tasks[task]
    check(make_model(vocab), make_batch(vocab, lengths=(1, 1), room=max(0, room)), Learned(), Learned())


def with_bias(model, token, amount):
    with torch.no_grad():
        model.project.bias[token] += amount
    return model


def test_a_roll_in_that_ends_at_once():
    model = with_bias(make_model(FREE), FREE.eos, 1e4)
    batch = make_batch(FREE, lengths=(4, 2), room=2)
    result = check(model, batch, Learned(), Learned())
    assert result.prefix[:, 0].tolist() == [FREE.eos] * 2
    assert result.valid.any(-1).sum(1).tolist() == [1, 1]


def test_a_roll_in_that_never_ends():
    model = with_bias(make_model(FREE), FREE.eos, -1e4)
    batch = make_batch(FREE, lengths=(4, 2), room=2)
    result = check(model, batch, Learned(), Learned())
    assert (result.prefix != FREE.eos).all()
    assert result.valid.any(-1).sum(1).tolist() == batch.lengths.tolist()


budgeted = {
    "learned": lambda budget: Learned(budget=budget),
    "beam": lambda budget: Learned(beam=3, budget=budget),
    "sampled": lambda budget: Sampled(budget=budget),
    "mixed-example": lambda budget: Mixed(learned=Learned(budget=budget)),
    "mixed-token": lambda budget: Mixed(per="token", learned=Learned(budget=budget)),
    "mixed-branch": lambda budget: Mixed(per="branch", learned=Learned(budget=budget)),
    "focused": lambda budget: Focused(2, learned=Learned(budget=budget)),
}


@pytest.mark.parametrize("policy", budgeted)
@pytest.mark.parametrize("task", tasks)
def test_the_budget_changes_nothing(policy, task):
    vocab, room = tasks[task]
    model = make_model(vocab, seed=4, attention="additive")
    batch = make_batch(vocab, lengths=(6, 2, 5, 1, 3), room=room)
    results = [
        search(model, batch, roll_in=Learned(), roll_out=budgeted[policy](budget), cost=EditDistance(), rng=rng())
        for budget in (None, 1, 3_000, 20_000, 10**9)
    ]
    for other in results[1:]:
        assert torch.equal(results[0].outputs, other.outputs)
        assert torch.equal(results[0].costs, other.costs)


def test_a_model_with_step_alone_is_enough():
    class Bare:
        def __init__(self, model):
            self.vocab, self.encode, self.start, self.step = model.vocab, model.encode, model.start, model.step

    model, batch = make_model(FREE, cell="lstm"), make_batch(FREE, room=1)
    settings = {"roll_in": Learned(), "roll_out": Learned(), "cost": EditDistance(), "rng": rng()}
    full = search(model, batch, **settings)
    bare = search(Bare(model), batch, **(settings | {"rng": rng()}))
    assert torch.equal(full.outputs, bare.outputs)
    assert torch.equal(full.costs, bare.costs)


def test_the_batch_needs_no_vocabulary():
    model, batch = make_model(FREE), make_batch(FREE)
    settings = {"roll_in": Learned(), "roll_out": Mixed(), "cost": EditDistance()}
    without = search(model, replace(batch, vocab=None), rng=rng(), **settings)
    assert torch.equal(without.costs, search(model, batch, rng=rng(), **settings).costs)


def test_dropout_is_off_in_the_search_and_the_mode_is_kept():
    model, batch = make_model(KNOWN, dropout=0.5), make_batch(KNOWN)
    settings = {"roll_in": Learned(), "roll_out": Learned(), "cost": Hamming()}
    expected = search(model, batch, rng=rng(), **settings)
    model.train()
    model.encoder.eval()
    found = search(model, batch, rng=rng(), **settings)
    assert model.training
    assert not model.encoder.training
    assert torch.equal(found.outputs, expected.outputs)


def test_a_function_sees_no_masked_branch():
    def share(output, truth):
        return sum(a != b for a, b in zip(output, truth, strict=True)) / len(output)

    model, batch = make_model(KNOWN), make_batch(KNOWN, lengths=(5, 2))
    result = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=from_callable(share), rng=rng())
    assert (result.costs[~result.valid] == 0).all()


def test_an_oracle_of_ones_own_gets_no_formula_made_for_another():
    class Mine:
        name = "copy"

        def complete(self, branches, batch):
            return OptimalEdit().complete(branches, batch)

    model, batch = make_model(FREE, seed=3), make_batch(FREE, lengths=(5, 4, 2), room=2)
    settings = {"roll_in": Learned(), "cost": EditDistance(), "rng": rng()}
    mine = search(model, batch, roll_out=Reference(Mine()), **settings)
    assert torch.equal(mine.costs, search(model, batch, roll_out=Reference(OptimalEdit()), **settings).costs)
    assert not torch.equal(mine.costs, search(model, batch, roll_out=Reference(), **settings).costs)


@pytest.mark.parametrize("repeats", [[[0, 0, 1, 2]], [[-1, 0, 1, 3]], [[3, 3, 3, 3]]], ids=str)
def test_repeated_and_outside_cells_are_masked(repeats, monkeypatch):
    """Also where the engine plans from lengths alone, as on a device that it must not wait for."""
    model, batch = make_model(KNOWN, seed=3), make_batch(KNOWN, lengths=(5, 4))
    cells = torch.tensor(repeats).expand(2, -1)

    def sampler(prefix, batch, rng):
        return cells

    for roll_out in (Learned(), Mixed(per="cell"), Mixed(per="branch"), Focused(1)):
        settings = {"roll_in": Learned(), "roll_out": roll_out, "cost": Hamming(), "cells": sampler}
        expected = search(model, batch, rng=rng(), **settings)
        assert expected.valid.any(-1).sum() <= 8
        with monkeypatch.context() as patch:
            patch.setattr(waves, "reads_are_free", lambda device: False)
            assert torch.equal(search(model, batch, rng=rng(), **settings).outputs, expected.outputs)


def test_planning_from_lengths_alone_gives_the_same(monkeypatch):
    """What a GPU does, with nothing read back: bounds in place of counts."""
    for vocab, room in tasks.values():
        model, batch = make_model(vocab, seed=3), make_batch(vocab, lengths=(6, 2, 5, 1, 3), room=room)
        for roll_out in roll_outs.values():
            settings = {"roll_in": Learned(), "roll_out": roll_out, "cost": Hamming(), "cells": UniformCells(3)}
            expected = search(model, batch, rng=rng(), **settings)
            with monkeypatch.context() as patch:
                for module in (waves, loop):
                    patch.setattr(module, "reads_are_free", lambda device: False)
                found = search(model, batch, rng=rng(), **settings)
            assert torch.equal(found.outputs, expected.outputs)


@pytest.mark.parametrize("penalty", [0.0, 2.0])
def test_a_beam_that_rolls_out_divides_by_its_power_of_the_length(penalty):
    model, batch = make_model(FREE, seed=3, spread=2.0), make_batch(FREE, lengths=(3, 2), room=2)
    check(model, batch, Learned(), Learned(beam=3, length_penalty=penalty), cost_names=("edit",))


def test_repeated_values_are_those_that_stand_earlier():
    values = torch.randint(9, (5, 3, 40), generator=rng(2))  # so many that a sort may mix up equals
    for row, found in zip(values.flatten(0, 1).tolist(), repeated(values).flatten(0, 1).tolist(), strict=True):
        assert found == [value in row[:place] for place, value in enumerate(row)]


@pytest.mark.parametrize("vocab", [*(vocab for vocab, _ in tasks.values()), Vocabulary(size=4, pad=6, bos=0)])
def test_what_a_sampler_must_not_give_is_masked(vocab):
    """Tokens that no output has: PAD, BOS, and numbers that are no token; at cells that exist, and at others."""
    batch = make_batch(vocab, lengths=(3, 1))
    width = batch.targets.shape[1]
    given, cells = list(range(-2, vocab.embeddings + 2)), list(range(-1, width + 2))

    def sampler(scores, batch, cells, rng):
        return torch.tensor(given).expand(*cells.shape, -1)

    scores = torch.zeros(2, width, vocab.size)
    found = branch(batch.targets, torch.tensor(cells).expand(2, -1), scores, batch, sampler, rng())
    for example, (place, cell) in product(range(2), enumerate(cells)):
        exists = 0 <= cell < width and int(batch.targets[example, cell]) != vocab.pad
        assert found.valid[example, place].tolist() == [exists and token in vocab.choosable for token in given]


def test_cells_are_drawn_with_the_scores_where_they_are_asked_for_and_come_ascending():
    batch = make_batch(KNOWN, lengths=(5, 3))
    scores = torch.randn(2, 5, KNOWN.size, generator=rng(1))
    expected = UncertainCells(2)(batch.targets, batch, rng(), scores=scores)
    assert torch.equal(sample_cells(UncertainCells(2), batch.targets, batch, rng(), scores), expected)

    def descending(prefix, batch, rng):
        return torch.tensor([[4, 1, 2]]).expand(2, -1)

    assert sample_cells(descending, batch.targets, batch, rng(), scores).tolist() == [[1, 2, 4]] * 2


def test_a_branch_that_would_repeat_the_roll_in_is_not_run(monkeypatch):
    model, batch = make_model(FREE, seed=3), make_batch(FREE, lengths=(4, 2), room=1)
    prefix = Learned().roll_in(Encoded(model, model.encode(batch.inputs)), batch, rng())
    monkeypatch.setattr(model, "fork", Untouchable().complete)

    def sampler(scores, batch, cells, rng):
        return prefix.gather(1, cells).unsqueeze(-1)

    found = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), tokens=sampler, rng=rng())
    assert torch.equal(found.outputs[:, 0, 0], prefix)


def test_a_cost_without_a_vocabulary_is_taken_as_it_is_and_one_with_its_own_keeps_it():
    @dataclass(frozen=True)
    class Plain:
        def __call__(self, outputs, targets):
            return (outputs == targets.unsqueeze(1)).sum(-1).float()

    other = replace(FREE, bos=9)
    assert bind(Plain(), FREE) == Plain()
    assert bind(Hamming(other), FREE).vocab == other
    assert bind(Hamming(), FREE).vocab == FREE
    function = Plain().__call__
    assert bind(function, FREE) is function


def test_a_search_alone_keeps_no_gradient(monkeypatch):
    """Also of a model that is the same in training, which a pass that learns would share with the search."""
    model, batch = make_model(FREE).train(), make_batch(FREE, room=1)
    calls = readings(model, monkeypatch)
    search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=Hamming(), rng=rng())
    assert calls == [("encode", False, False), ("trace", False, False)]
