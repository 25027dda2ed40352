"""DAgger, AggreVaTe and their rounds: the oracle's tokens by hand, whose roll-in learns when, and the identities."""

import copy

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, make_model, rng
from imitation_cases import attached, close, value_and_gradient
from naive import Example

from searnn import Encoded, Mle, Searnn, SearnnError
from searnn.algorithms.aggrevate import Aggrevate
from searnn.algorithms.common.imitation import oracle_tokens
from searnn.algorithms.dagger import Dagger
from searnn.algorithms.lols import Lols
from searnn.costs import EditDistance, Hamming
from searnn.losses import KLLoss, LogLoss, SquaredLoss
from searnn.oracles import BestSuffix, CopyTarget, OptimalEdit
from searnn.policies import Learned, Mixed, Reference, Sampled
from searnn.samplers import UniformCells, UniformTokens
from searnn.sequences import valid_cells

vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
models = pytest.mark.parametrize("setting", ["attention", "transformer"])
ONLINE = {"round_steps": 1, "buffer": 1, "reference_decay": 0.0}  # the roll-in of update 1 is the model's own


@vocabs
@pytest.mark.parametrize("oracle", [CopyTarget(), OptimalEdit()], ids=["copy", "optimal"])
def test_the_oracle_says_at_each_cell_what_it_would_write_there(vocab, oracle):
    for seed in range(4):
        model, batch = make_model(vocab, seed=seed), make_batch(vocab, lengths=(5, 4, 2, 1), seed=seed, room=1)
        prefix = Sampled().roll_in(Encoded(model, model.encode(batch.inputs)), batch, rng(seed))
        found, visited = oracle_tokens(oracle, prefix, batch), valid_cells(prefix, batch)
        for number in range(len(prefix)):
            example = Example(model, batch, number)
            finish = example.copy if oracle == CopyTarget() else example.optimal
            for cell in range(int(visited[number].sum())):
                written = prefix[number, :cell].tolist()
                expected = finish(written)[cell] if cell else example.true_token(0)
                assert found[number, cell] == expected, (number, written)


def test_the_best_suffix_goes_on_after_what_is_written():
    batch = make_batch(FREE, lengths=(4,), room=1)
    truth = batch.targets[:, :4].tolist()[0]
    wrong = next(token for token in range(1, 5) if token not in truth[:2])
    prefix = torch.tensor([[wrong, *truth[:3], 0, FREE.pad]])
    found = oracle_tokens(BestSuffix(), prefix, batch)[0].tolist()
    assert found[0] == truth[0]
    copied = oracle_tokens(CopyTarget(), prefix, batch)[0].tolist()
    assert copied[:5] == [*truth, 0]
    assert found != copied


@vocabs
def test_a_single_cell(vocab):
    model, batch = make_model(vocab), make_batch(vocab, lengths=(1, 1))
    close(value_and_gradient(Dagger(), model, batch), value_and_gradient(Mle(), model, batch))


@vocabs
@models
@pytest.mark.parametrize("normalisation", ["batch", "cell", "sum"])
def test_the_first_round_of_dagger_is_maximum_likelihood(vocab, setting, normalisation):
    model, batch = make_model(vocab, spread=1.5, **SETTINGS[setting]), make_batch(vocab, room=1)
    dagger = attached(Dagger(round_steps=3, normalisation=normalisation), model)
    for step in (0, 2):
        found = value_and_gradient(dagger, model, batch, step=step)
        close(found, value_and_gradient(Mle(normalisation=normalisation), model, batch))


@vocabs
@models
def test_lols_with_reference_roll_outs_and_hamming_is_dagger(vocab, setting):
    """Without aggregation and with the same roll-in; AggreVaTe with the log-loss is a third name for it."""
    model = make_model(vocab, seed=2, spread=2.0, **SETTINGS[setting])
    batch = make_batch(vocab, lengths=(5, 4, 2), room=1)
    dagger = value_and_gradient(attached(Dagger(**ONLINE), model), model, batch, step=1)
    close(value_and_gradient(Lols(Hamming(), LogLoss(), reference_probability=1.0), model, batch), dagger)
    aggrevate = attached(Aggrevate(cost=Hamming(), loss=LogLoss(), **ONLINE), model)
    close(value_and_gradient(aggrevate, model, batch, step=1), dagger)
    assert not torch.allclose(dagger[1], value_and_gradient(Mle(), model, batch)[1])


@vocabs
@models
def test_aggrevate_learns_the_cost_to_go_of_the_oracle(vocab, setting):
    model = make_model(vocab, seed=2, spread=2.0, **SETTINGS[setting])
    batch = make_batch(vocab, lengths=(5, 4, 2), room=1)
    for oracle, loss in ((CopyTarget(), SquaredLoss()), (OptimalEdit(), KLLoss(3.0))):
        made = attached(Aggrevate(cost=EditDistance(), loss=loss, oracle=oracle, **ONLINE), model)
        for step, roll_in in ((0, Reference()), (1, Learned())):
            same = Searnn(roll_in, Reference(oracle), EditDistance(), loss)
            close(value_and_gradient(made, model, batch, step=step), value_and_gradient(same, model, batch))


def test_rounds_take_turns_and_the_reference_fades():
    """Rounds of four updates, two of them kept: which copy rolls in, how often the reference, when one is taken."""
    model = make_model(FREE)
    dagger = attached(Dagger(round_steps=4, buffer=2, reference_decay=0.5), model)
    copies = list(dagger.aggregation.snapshots.copies)
    seen = []
    for step in range(12):
        phase = dagger.at(step)
        roll_in = phase.learn.roll_in
        if roll_in == Reference():
            seen.append((None, 1.0, phase.slot))
            continue
        number = next(number for number, kept in enumerate(copies) if kept is roll_in.model)
        assert isinstance(roll_in.policy, Mixed)
        assert roll_in.policy.per == "token"
        seen.append((number, roll_in.policy.reference_probability, phase.slot))
    reference, one, two = (None, 1.0, None), (1, 0.5, None), (0, 0.25, None)
    assert seen == [
        reference, reference, reference, reference,
        (1, 0.5, 1), reference, one, reference,
        (0, 0.25, 0), one, two, one,
    ]  # fmt: skip
    assert dagger.at(6) == dagger.at(9)  # a recorded step serves both
    assert hash(dagger.at(6)) == hash(dagger.at(9))
    assert dagger.at(6) != dagger.at(4)


@pytest.mark.parametrize("setting", ["gru", "transformer"])
def test_a_rounds_policy_is_the_model_as_it_was_when_the_round_began(setting):
    model, batch = make_model(FREE, seed=1, **SETTINGS[setting]), make_batch(FREE, lengths=(5, 4, 2), room=1)
    dagger = attached(Dagger(round_steps=2, buffer=1, reference_decay=0.0), model)
    frozen = copy.deepcopy(model)
    dagger.at(2)(model, batch, rng())
    with torch.no_grad():
        for parameter, other in zip(model.parameters(), make_model(FREE, seed=5, **SETTINGS[setting]).parameters(),
                                    strict=True):  # fmt: skip
            parameter.copy_(other)
    prefix = Learned().roll_in(Encoded(frozen, frozen.encode(batch.inputs)), batch, rng())
    assert not torch.equal(prefix, Learned().roll_in(Encoded(model, model.encode(batch.inputs)), batch, rng()))
    scores, _ = model.trace(model.encode(batch.inputs), prefix)
    counted = valid_cells(prefix, batch)
    targets = oracle_tokens(CopyTarget(), prefix, batch)
    losses = -scores.log_softmax(-1).gather(2, targets.unsqueeze(-1).clamp(max=FREE.size - 1)).squeeze(-1)
    close(dagger.at(3)(model, batch, rng()).loss, losses[counted].sum() / 3)
    dagger.at(4)(model, batch, rng())  # the next round begins: another policy
    close(dagger.aggregation.snapshots.of(0).state_dict(), model.state_dict())


def test_copies_are_never_trained_and_their_dropout_is_off():
    model = make_model(FREE, dropout=0.5)
    dagger = attached(Dagger(buffer=2), model).train()
    assert not any(parameter.requires_grad for parameter in dagger.parameters())
    assert all(not module.training for module in dagger.aggregation.snapshots.modules())
    assert len(dagger.state_dict()) == 2 * len(model.state_dict())
    kept = dagger.aggregation.snapshots.of(0)
    addresses = [parameter.data_ptr() for parameter in kept.parameters()]
    dagger.aggregation.snapshots.take(0, make_model(FREE, seed=7, dropout=0.5))
    assert addresses == [parameter.data_ptr() for parameter in kept.parameters()]
    close(kept.state_dict(), make_model(FREE, seed=7, dropout=0.5).state_dict())


def test_every_setting_changes_something():
    model = make_model(FREE, seed=2)
    batch = make_batch(FREE, lengths=(5, 4, 5, 3), seed=1, room=1)
    plain = {"round_steps": 2, "buffer": 3, "reference_decay": 0.3}

    def dagger(**changes):
        made = attached(Dagger(**{**plain, **changes}), make_model(FREE, seed=3))  # a policy that is not the model
        return [value_and_gradient(made, model, batch, step=step)[0].item() for step in (4, 5)]

    def aggrevate(**changes):
        given = {"cost": EditDistance(), "loss": KLLoss(2.0), **plain, **changes}
        made = attached(Aggrevate(**given), make_model(FREE, seed=3))
        return [value_and_gradient(made, model, batch, step=step)[0].item() for step in (4, 5)]

    shared = [{"round_steps": 50}, {"buffer": 1}, {"reference_decay": 0.0}, {"normalisation": "sum"},
              {"oracle": OptimalEdit()}]  # fmt: skip
    plain_dagger, plain_aggrevate = dagger(), aggrevate()
    for changes in shared:
        assert dagger(**changes) != plain_dagger, changes
        assert aggrevate(**changes) != plain_aggrevate, changes
    for changes in ({"cost": Hamming()}, {"loss": LogLoss()}, {"tokens": UniformTokens(2)}, {"cells": UniformCells(1)}):
        assert aggrevate(**changes) != plain_aggrevate, changes


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"round_steps": 0}, "round_steps is 0, it must be a whole number of at least 1"),
        ({"buffer": 0}, "buffer is 0, it must be a whole number of at least 1"),
        ({"reference_decay": 1.5}, "reference_decay is 1.5, it must be a number of at least 0 and at most 1"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, told):
    for make in (Dagger, lambda **given: Aggrevate(cost=Hamming(), loss=LogLoss(), **given)):
        with pytest.raises(SearnnError, match=told):
            make(**settings)


def test_a_later_round_without_attach_says_what_to_do():
    with pytest.raises(SearnnError, match="call the algorithm's attach"):
        Dagger(round_steps=1).at(1)
