"""What algorithms say of an update beside its loss: the names that are documented, and over how many each is a mean."""

import re
from pathlib import Path

import pytest
import torch
from cases import FREE, KNOWN, make_batch, make_model, one_example, readings, rng

from searnn import Mle, Searnn, schedules
from searnn.algorithms import (
    ActorCritic,
    Aggrevate,
    Aggrevated,
    BanditLols,
    Bso,
    Dagger,
    Laso,
    Lols,
    Mixer,
    Mrt,
    Ocd,
    Raml,
    Reinforce,
    ScheduledSampling,
    Searn,
    SelfCritical,
)
from searnn.algorithms.bso import search_logs
from searnn.algorithms.common import paths
from searnn.algorithms.common.critic import Critic
from searnn.algorithms.common.imitation import learn_tokens
from searnn.config.registry import AXES
from searnn.costs import EditDistance
from searnn.decoding.tracking import Rivals
from searnn.losses import KLLoss, LogLoss
from searnn.oracles import CopyTarget
from searnn.policies import Learned, Mixed, Reference
from searnn.sequences import valid_cells

COST = EditDistance()
PAGES = Path(__file__).parents[1] / "docs" / "algorithms"
# What is logged besides the loss: as means over examples, and as means over the cells that the loss is made of.
LOGGED = {
    Mle: (lambda: Mle(), set(), set()),
    Searnn: (lambda: Searnn(Learned(), Mixed(), COST, KLLoss(2.0)), set(), set()),
    Searn: (lambda: Searn(cost=COST, loss=KLLoss(2.0)), set(), set()),
    Lols: (lambda: Lols(cost=COST, loss=KLLoss(2.0)), set(), set()),
    Aggrevate: (lambda: Aggrevate(cost=COST, loss=KLLoss(2.0)), set(), set()),
    Aggrevated: (lambda: Aggrevated(cost=COST), set(), set()),
    BanditLols: (lambda: BanditLols(cost=COST), {"tried_cost"}, set()),
    Dagger: (lambda: Dagger(), {"off_truth_share"}, set()),
    ScheduledSampling: (lambda: ScheduledSampling(0.5), {"off_truth_share"}, set()),
    Bso: (lambda: Bso(train_beam=3), {"lost_examples"}, {"lost_cells"}),
    Laso: (lambda: Laso(train_beam=3), {"lost_examples"}, {"lost_cells"}),
    Ocd: (lambda: Ocd(), set(), {"optimal_tokens", "optimal_probability"}),
    Raml: (lambda: Raml(tau=1.0), {"edits", "edited_share"}, set()),
    Reinforce: (lambda: Reinforce(cost=COST), {"cost"}, {"entropy", "baseline_error"}),
    SelfCritical: (lambda: SelfCritical(cost=COST), {"cost", "baseline"}, set()),
    Mrt: (lambda: Mrt(cost=COST, samples=3), {"cost", "candidates"}, set()),
    Mixer: (
        lambda: Mixer(cost=COST, cross_entropy_cells=2), {"cost"}, {"entropy", "baseline_error", "cross_entropy_share"}
    ),
    ActorCritic: (lambda: ActorCritic(cost=COST, critic_steps=0, critic_width=4), {"cost"}, {"critic_error", "regret"}),
}  # fmt: skip


def made(kind, model, step=0):
    algorithm = LOGGED[kind][0]()
    if hasattr(algorithm, "attach"):
        algorithm.attach(model)
    return algorithm if step is None else schedules.at(algorithm, step)


def test_no_algorithm_is_left_out_here():
    assert {kind.name for kind in LOGGED} == set(AXES["algorithm"])


@pytest.mark.parametrize("kind", LOGGED)
@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_what_is_logged_has_its_documented_name_and_number(kind, vocab):
    model, batch = make_model(vocab, seed=2, spread=1.5), make_batch(vocab, lengths=(4, 2, 3), room=1)
    update = made(kind, model)(model, batch, rng())
    _, of_examples, of_cells = LOGGED[kind]
    assert update.logs.keys() == {"loss"} | of_examples | of_cells
    assert torch.equal(update.logs["loss"], update.loss)
    assert not any(value.requires_grad for value in update.logs.values())
    assert update.counts.keys() == of_cells
    assert all(torch.equal(count, update.cells) for count in update.counts.values())
    page = (PAGES / f"{kind.name}.md").read_text()
    page += "".join((PAGES / linked).read_text() for linked in re.findall(r"As for \[.*\]\((.*\.md)\)", page))
    assert all(name in page for name in of_examples | of_cells)


@pytest.mark.parametrize("kind", [Mle, Dagger, ScheduledSampling, Searnn, Reinforce, SelfCritical, Ocd])
def test_the_cells_are_those_that_the_loss_is_made_of(kind):
    """Where all outputs have their known lengths, every algorithm counts each of their cells."""
    model, batch = make_model(KNOWN, seed=2, spread=1.5), make_batch(KNOWN, lengths=(4, 2, 3))
    assert made(kind, model)(model, batch, rng()).cells == 4 + 2 + 3


@pytest.mark.parametrize("lengths", [(1, 1, 1), (1, 4, 2)])
def test_the_share_off_the_truth_is_a_mean_over_examples_of_any_length(lengths):
    model, batch = make_model(KNOWN, seed=2), make_batch(KNOWN, lengths=lengths)
    prefix = (batch.targets + 1).remainder(KNOWN.size)
    prefix[1, 0] = batch.targets[1, 0]
    prefix = prefix.masked_fill(batch.targets == KNOWN.pad, KNOWN.pad)
    counted = valid_cells(batch.targets, batch)
    found = learn_tokens(model, batch, prefix, batch.targets, counted, "batch").logs["off_truth_share"]
    assert found.item() == pytest.approx((1 + (lengths[1] - 1) / lengths[1] + 1) / 3)


@pytest.mark.parametrize("lengths", [(1,), (1, 1, 1), (1, 4, 2)])
def test_edits_are_shares_of_truths_of_any_length(lengths):
    model, batch = make_model(KNOWN, seed=2), make_batch(KNOWN, lengths=lengths)
    logs = [Raml(tau=9.0)(model, one_example(batch, example), rng(3)).logs for example in range(len(lengths))]
    for length, found in zip(lengths, logs, strict=True):
        assert found["edits"] > 0
        assert found["edited_share"].item() == pytest.approx(found["edits"].item() / length)


def test_what_beams_lost_is_told_of_cells_and_of_examples():
    lost = torch.tensor([[True, False, True], [False, False, False], [True, False, False]])
    rivals = Rivals(torch.zeros(3, 1, 3), lost, lost.unsqueeze(1), torch.zeros(3, 3))
    for counted in (torch.ones(3, 3, dtype=torch.bool), lost, torch.arange(3).expand(3, 3) < 1):
        logs = search_logs(rivals, counted)
        assert logs["lost_cells"].item() == pytest.approx(3 / int(counted.sum()))
        assert logs["lost_examples"].item() == pytest.approx(2 / 3)
    assert search_logs(rivals, torch.arange(9).view(3, 3) < 1)["lost_cells"] == 3


@pytest.mark.parametrize("count", range(5))
def test_a_mean_over_counted_values(count):
    values, counted = torch.tensor([3.0, 5.0, 1.0, 7.0]), torch.arange(4) < count
    expected = sum([3.0, 5.0, 1.0, 7.0][:count]) / count if count else 0.0
    assert paths.mean_over(values, counted) == expected


def test_the_regret_of_the_actor_is_what_its_loss_adds_to_the_critics():
    model, batch = make_model(FREE, seed=2, spread=1.5), make_batch(FREE, lengths=(4, 2, 3), room=1)
    algorithm = ActorCritic(cost=COST, critic_steps=0, critic_width=4, variance_penalty=0.0, normalisation="cell")
    algorithm.attach(model)
    assert {parameter.dtype for parameter in algorithm.parameters()} == {torch.float64}
    logs = schedules.at(algorithm, 0)(model, batch, rng()).logs
    assert logs["regret"] > 0
    torch.testing.assert_close(logs["critic_error"] + logs["regret"], logs["loss"])


@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_the_critic_sees_all_of_the_truth_from_the_first_cell_on(vocab):
    batch = make_batch(vocab, lengths=(4, 4))
    critic = Critic(vocab, 4)
    outputs = torch.full_like(batch.targets, vocab.choosable[-1])
    before = critic(outputs, batch)
    batch.targets[0, 3] = next(token for token in vocab.choosable if token not in (vocab.eos, batch.targets[0, 3]))
    after = critic(outputs, batch)
    assert (after[0, 0] != before[0, 0]).any()
    assert torch.equal(after[1], before[1])


def test_costs_less_the_mean_of_the_other_samples(monkeypatch):
    """Three samples of two examples, by the formula in a loop."""
    model, batch = make_model(FREE, seed=2, spread=1.5), make_batch(FREE, lengths=(3, 2), room=1)
    drawn = paths.draw(model, model.encode(batch.inputs), batch, rng(3), 3)
    monkeypatch.setattr(paths, "draw", lambda *arguments, **settings: drawn)
    update = SelfCritical(cost=COST, samples=3, baseline="leave-one-out")(model, batch, rng())
    costs = EditDistance(FREE)(drawn, batch.targets).tolist()
    chosen = paths.rescore(model, model.encode(batch.inputs), drawn).chosen.sum(-1).tolist()
    expected = 0.0
    for example in range(2):
        for row in range(3):
            others = [costs[example][other] for other in range(3) if other != row]
            expected += (costs[example][row] - sum(others) / 2) * chosen[example][row] / 3 / 2
    assert update.loss.item() == pytest.approx(expected, rel=1e-5)
    assert update.logs["baseline"].item() == pytest.approx(sum(map(sum, costs)) / 6, rel=1e-5)


def test_two_candidates_are_enough_for_a_risk():
    model, batch = make_model(FREE, seed=2, spread=1.5), make_batch(FREE, lengths=(3, 2), room=1)
    for settings in ({"samples": 1}, {"samples": 2, "with_truth": False}):
        assert Mrt(cost=COST, **settings)(model, batch, rng()).loss.isfinite()


def test_what_is_logged_of_candidates_is_a_mean_over_examples():
    model, batch = make_model(FREE, seed=2, spread=1.5), make_batch(FREE, lengths=(3, 2), room=1)
    drawn = paths.draw(model, model.encode(batch.inputs), batch, rng(1), 3)
    logs = Mrt(cost=COST, samples=3)(model, batch, rng(1)).logs
    assert logs["cost"].item() == pytest.approx(EditDistance(FREE)(drawn, batch.targets).mean().item())
    truths = [tuple(row) for row in batch.targets.tolist()]
    kinds = [len({truth, *map(tuple, rows)}) for truth, rows in zip(truths, drawn.tolist(), strict=True)]
    assert logs["candidates"] == sum(kinds) / 2


@pytest.mark.parametrize("kind", [Searn, Dagger, Aggrevate])
def test_a_plain_call_is_the_first_update(kind):
    model, batch = make_model(FREE, seed=2, spread=1.5), make_batch(FREE, lengths=(3, 2), room=1)
    algorithm = made(kind, model, step=None)
    assert torch.equal(algorithm(model, batch, rng(1)).loss, schedules.at(algorithm, 0)(model, batch, rng(1)).loss)


def test_mixers_border_may_stay_where_it_is():
    assert [Mixer(cost=COST, cross_entropy_cells=cells).at(7).cells for cells in (0, 2, 2.9)] == [0, 2, 2]


def test_ties_are_broken_by_the_generator_that_the_algorithm_is_given():
    """All costs are equal, so any token is a cheapest one."""
    model, batch = make_model(KNOWN, seed=2, spread=1.5), make_batch(KNOWN, lengths=(4, 3))
    algorithm = Searnn(Reference(), Reference(), lambda outputs, targets: torch.zeros(outputs.shape[:-1]),
                       LogLoss(ties="random"))  # fmt: skip
    first, again, other = (algorithm(model, batch, rng(seed)).loss for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_model_that_is_the_same_in_training_reads_a_batch_once(dropout, monkeypatch):
    model, batch = make_model(FREE, seed=2, dropout=dropout).train(), make_batch(FREE, room=1)
    calls = readings(model, monkeypatch)
    Searnn(Reference(), Reference(), COST, KLLoss(2.0))(model, batch, rng())
    learning = [("encode", True, True), ("trace", True, True)]
    searching = [("encode", False, False), ("trace", False, False)]
    assert calls == (learning if dropout == 0 else searching + learning)


def test_scheduled_sampling_of_no_token_has_the_price_of_maximum_likelihood(monkeypatch):
    model, batch = make_model(FREE, seed=2).train(), make_batch(FREE, room=1)
    calls = readings(model, monkeypatch)
    ScheduledSampling(0.0)(model, batch, rng())
    assert calls == [("encode", True, True), ("trace", True, True)]


@pytest.mark.parametrize(("decay", "times"), [(0.0, 1), (0.5, 5)])
def test_an_oracle_without_a_share_in_the_roll_in_is_asked_for_the_targets_alone(decay, times):
    class Counted(CopyTarget):
        calls = 0

        def complete(self, branches, batch):
            Counted.calls += 1
            return super().complete(branches, batch)

    model, batch = make_model(KNOWN, seed=2), make_batch(KNOWN, lengths=(4, 3))
    algorithm = Dagger(oracle=Counted(), round_steps=1, buffer=1, reference_decay=decay)
    algorithm.attach(model)
    schedules.at(algorithm, 1)(model, batch, rng())
    assert Counted.calls == times  # once for all targets; in the roll-in once a cell
