"""What is prepared on the host for steps that are recorded: few shapes, and plans that serve every batch of a shape."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch
from training_cases import SETTINGS, make_model, make_task, random_searnn

from searnn.algorithms import ActorCritic, Mle, Reinforce, ScheduledSampling, Searnn, WarmUp
from searnn.costs import EditDistance, from_callable
from searnn.fast import graphs
from searnn.fast.graphs import (
    Captured,
    Graph,
    asks_host,
    may_be_recorded,
    phase_of,
    planned_for_all,
    round_number,
    rounded,
    shapes,
    with_dials,
)
from searnn.losses import KLLoss
from searnn.policies import Learned, Mixed
from searnn.rng import generator
from searnn.schedules import Linear, at
from searnn.training import fit
from searnn.types import Batch, Inputs, SearnnError

SEARNN = Searnn(Learned(), Learned(), EditDistance(), KLLoss(3.0))


@pytest.mark.parametrize(
    ("size", "rounded_up"),
    [(1, 2), (4, 4), (5, 6), (13, 14), (17, 18), (25, 26), (32, 32), (33, 40), (64, 64), (65, 80), (200, 208)],
)
def test_sizes_are_rounded_up(size, rounded_up):
    assert round_number(size) == rounded_up


def test_few_sizes_occur():
    assert len({round_number(size) for size in range(1, 201)}) == 16 + 4 + 9
    assert all(size <= round_number(size) <= max(size + 1, 1.25 * size) for size in range(1, 400))


def batch_of(task) -> Batch:
    return replace(task.train(4, seed=0).batch(0), vocab=task.vocab)


def test_a_batch_is_padded_and_keeps_what_it_says():
    batch = batch_of(make_task())
    padded = rounded(batch)
    cells, sources = batch.targets.shape[1], batch.inputs.values.shape[1]
    assert padded.targets.shape[1] == round_number(cells)
    assert padded.inputs.values.shape[1] == round_number(sources)
    assert padded.targets[:, :cells].equal(batch.targets)
    assert (padded.targets[:, cells:] == batch.vocab.pad).all()
    assert padded.inputs.values[:, :sources].equal(batch.inputs.values)
    assert padded.lengths.equal(batch.lengths)
    assert padded.inputs.lengths.equal(batch.inputs.lengths)
    assert rounded(padded).targets.equal(padded.targets)


def test_features_are_padded_along_the_source():
    targets = torch.zeros(2, 5, dtype=torch.long)
    batch = replace(batch_of(make_task()), inputs=Inputs(torch.rand(2, 5, 3), torch.tensor([5, 4])), targets=targets,
                    lengths=torch.tensor([5, 4]), ids=None, host_lengths=None)  # fmt: skip
    assert rounded(batch).inputs.values.shape == (2, 6, 3)


def test_inputs_of_a_user_are_left_alone():
    batch = replace(batch_of(make_task()), inputs={"x": torch.rand(4, 5)})
    assert rounded(batch).inputs is batch.inputs


def test_the_shape_tells_batches_apart():
    batch = batch_of(make_task())
    assert shapes(batch) == shapes(replace(batch, lengths=batch.lengths - 1, host_lengths=None))
    assert shapes(batch) != shapes(rounded(batch))


@pytest.mark.parametrize("algorithm", [Mle(), SEARNN], ids=["mle", "searnn"])
def test_padding_and_planning_for_all_change_no_gradient(algorithm):
    model, batch = make_model().eval(), batch_of(make_task())  # dropout would draw by shape
    found = []
    for given in (batch, planned_for_all(rounded(batch))):
        model.zero_grad()
        update = algorithm(model, given, generator(0, "test"))
        update.loss.backward()
        found.append((update.loss.detach(), *(parameter.grad for parameter in model.parameters())))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "algorithm",
    [
        ScheduledSampling(Linear(0.0, 1.0, 10)),
        replace(SEARNN, roll_out=Mixed(reference_probability=Linear(1.0, 0.0, 10), per="token")),
        replace(SEARNN, roll_in=Mixed(reference_probability=Linear(1.0, 0.0, 10))),
    ],
    ids=["scheduled sampling", "roll-out", "roll-in"],
)
def test_a_moving_probability_may_stand_in_a_tensor(algorithm):
    """It is one phase then, and every step has the loss that it has with the number."""
    model, batch = make_model().eval(), batch_of(make_task())
    dialled = with_dials(algorithm, torch.device("cpu"))
    assert dialled is not algorithm
    phases, losses = set(), []
    for step in (0, 4, 7, 10):
        phases.add(phase_of(dialled, step))
        found = [at(one, step)(model, batch, generator(step, "test")).loss for one in (algorithm, dialled)]
        torch.testing.assert_close(*found, rtol=0, atol=0)
        losses.append(found[0].item())
    assert len(phases) == 1
    assert len(set(losses)) > 1
    assert len({phase_of(algorithm, step) for step in range(5)}) == 5


def test_what_does_not_move_has_no_dial():
    assert with_dials(SEARNN, torch.device("cpu")) is SEARNN
    critic = ActorCritic(cost=EditDistance())
    assert with_dials(critic, torch.device("cpu")) is critic


def test_only_our_own_parts_are_recorded():
    model = make_model()
    assert may_be_recorded(model, SEARNN)
    assert may_be_recorded(model, Mle())
    assert may_be_recorded(model, random_searnn())  # its schedule makes phases
    assert may_be_recorded(model, WarmUp(Mle(), SEARNN, 3))

    class Own(EditDistance):
        pass

    assert not may_be_recorded(model, replace(SEARNN, cost=Own()))
    assert not may_be_recorded(model, WarmUp(Mle(), replace(SEARNN, cost=Own()), 3))
    assert not may_be_recorded(model, WarmUp(Mle(), Reinforce(cost=Own()), 3))
    assert may_be_recorded(model, WarmUp(Mle(), Reinforce(cost=EditDistance()), 3))


def test_what_asks_the_host_is_not_recorded(monkeypatch):
    assert not asks_host(WarmUp(Mle(), SEARNN, 3))
    assert asks_host(replace(SEARNN, cost=from_callable(lambda output, target: 0.0)))
    monkeypatch.setattr(Searnn, "asks_host", True, raising=False)
    assert asks_host(WarmUp(Mle(), SEARNN, 3))
    assert not asks_host(Mle())


def test_phases_are_told_apart():
    assert phase_of(SEARNN, 0) is phase_of(Mle(), 5) is None
    warm = WarmUp(Mle(), Reinforce(cost=EditDistance()), 3)
    assert phase_of(warm, 0) == phase_of(warm, 2) == Mle()
    assert phase_of(warm, 3) is phase_of(warm, 9) is warm.then
    moving = random_searnn()
    assert phase_of(moving, 3) == phase_of(moving, 3) != phase_of(moving, 4)
    assert phase_of(moving, 40) == phase_of(moving, 50), "the schedule has come to its end"
    listed = replace(moving, cost=Listed([1]))  # it cannot be told whether two of these are equal
    assert phase_of(listed, 40) != phase_of(listed, 40)


@dataclass(frozen=True)
class Listed:
    values: list[int]

    def __call__(self, outputs, targets): ...


class Replayed(Captured):
    """Records nothing, since that takes a GPU, but knows what it would have recorded."""

    def __init__(self):
        self.usual, self.recorded, self.replays = 0, [], []
        super().__init__(self._usual, list(make_model().parameters()), optional=False)

    def _usual(self, batch, step, generator, hold):
        self.usual += 1
        return {}

    def _record(self, batch, step):
        self.recorded.append(self.now)
        return Graph(SimpleNamespace(replay=lambda now=self.now: self.replays.append(now)), batch, {})

    def _seed(self, seeds): ...

    def run(self, *phases):
        for self.now in phases:
            self(batch_of(make_task()), 0, (0, 0), self.now)


@pytest.fixture
def captured(monkeypatch):
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: None)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    return Replayed()


def test_every_phase_is_recorded_once_and_replayed_in_its_turn(captured):
    captured.run("a", "a", "a", "b", "b", "a", "b")
    assert captured.usual == 2  # the first of each
    assert captured.recorded == ["a", "b"]
    assert captured.replays == ["a", "a", "b", "a", "b"]


def test_phases_that_take_turns_are_recorded(captured):
    captured.run(*"abcabcabc")
    assert captured.recorded == ["a", "b", "c"]
    assert captured.replays == list("abcabc")


def test_a_schedule_that_moves_at_every_step_is_not_recorded_and_told_of_once(captured, monkeypatch):
    told = []
    monkeypatch.setattr(graphs, "announce", told.append)
    monkeypatch.setattr(graphs, "MOST_PHASES", 30)
    captured.run(*range(100))
    assert not captured.recorded
    assert captured.usual == 100
    assert len(captured.seen) <= 30
    assert len(told) == 1
    captured.run(*["end"] * 3)  # it has come to its end
    assert captured.replays == ["end", "end"]


def test_graphs_of_other_phases_make_room(captured, monkeypatch):
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    captured.run(*"aabbcc")
    assert captured.recorded == ["a", "b", "c"]
    assert [phase for _, phase in captured.graphs] == ["c"]


def test_recording_needs_a_gpu(tmp_path):
    with pytest.raises(SearnnError, match="compile is on, but there is no CUDA device: use compile auto or off"):
        fit(make_model(), Mle(), make_task(), replace(SETTINGS, compile="on"), tmp_path)
