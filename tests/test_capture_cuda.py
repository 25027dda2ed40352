"""Steps replayed as CUDA graphs are the steps that would have been made."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from training_cases import ADAM, SETTINGS, lines, make_model, make_task, same, weights

from searnn.algorithms import ActorCritic, Mle, ScheduledSampling, Searnn, WarmUp
from searnn.costs import EditDistance, from_callable
from searnn.fast import graphs
from searnn.fast.graphs import rounded, shapes
from searnn.losses import KLLoss
from searnn.policies import Learned, Mixed, Reference
from searnn.training import fit
from searnn.types import SearnnError

pytestmark = pytest.mark.gpu

ON_GPU = replace(ADAM, device="cuda", compile="on")
LEARNED = Searnn(Learned(), Learned(), EditDistance(), KLLoss(3.0))
MIXED = Searnn(Learned(), Mixed(), EditDistance(), KLLoss(3.0))
CASES = {"mle": Mle(), "learned": LEARNED, "reference": Searnn(Reference(), Reference(), EditDistance(), KLLoss(3.0))}


@pytest.fixture
def replays(monkeypatch):
    """Counts the graphs that were recorded."""
    made = []

    class Counted(graphs.Captured):
        def _record(self, batch, step):
            made.append(shapes(batch))
            return super()._record(batch, step)

    monkeypatch.setattr(graphs, "Captured", Counted)
    return made


def padded(task):
    """The task with batches of the shapes that are recorded."""
    train = task.train

    def padding(batch_size, seed):
        data = train(batch_size, seed)
        batch = data.batch
        data.batch = lambda step: rounded(batch(step))
        return data

    task.train = padding
    return task


@pytest.mark.parametrize("settings", [ON_GPU, replace(SETTINGS, device="cuda", compile="on", momentum=0.5)])
@pytest.mark.parametrize("name", CASES)
def test_replayed_steps_equal_steps_as_usual(tmp_path, replays, name, settings):
    """Evaluations come in between: they must leave alone what the graphs read and write."""
    models = {}
    for compile, task in (("on", make_task()), ("off", padded(make_task()))):
        models[compile] = make_model(dropout=0.0)
        fit(models[compile], CASES[name], task, replace(settings, compile=compile), tmp_path / compile)
    assert replays
    for one, other in zip(models["on"].parameters(), models["off"].parameters(), strict=True):
        if name == "mle":  # the same kernels on the same shapes
            assert one.equal(other)
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert len(lines(tmp_path / "on")) == len(lines(tmp_path / "off")) == 4


def test_the_average_of_replayed_steps_is_that_of_steps_as_usual(tmp_path, replays):
    """The average is read and written between replays, and put into the model for every evaluation."""
    for compile, task in (("on", make_task()), ("off", padded(make_task()))):
        settings = replace(ON_GPU, compile=compile, average=0.9)
        fit(make_model(dropout=0.0), Mle(), task, settings, tmp_path / compile)
    assert replays
    assert same(weights(tmp_path / "on" / "best"), weights(tmp_path / "off" / "best"))
    kept = {name: value for name, value in weights(tmp_path / "on" / "last").items() if name.startswith("model.")}
    assert not same(weights(tmp_path / "on" / "best"), kept)


def test_replayed_steps_equal_steps_without_padding(tmp_path, replays):
    """In float64: other shapes round in another way, which steps of 0.5 make a thousand times as large in float32."""
    sgd = replace(SETTINGS, device="cuda", momentum=0.5, precision="64-true")
    models = {}
    for compile in ("on", "off"):
        models[compile] = make_model(dropout=0.0)
        fit(models[compile], Mle(), make_task(), replace(sgd, compile=compile), tmp_path / compile)
    assert replays
    for one, other in zip(models["on"].parameters(), models["off"].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("algorithm", [Mle(), MIXED], ids=["mle", "mixed"])
def test_resuming_gives_the_same_bits(tmp_path, replays, algorithm):
    fit(make_model(), algorithm, make_task(), ON_GPU, tmp_path / "whole")
    fit(make_model(), algorithm, make_task(), replace(ON_GPU, steps=20), tmp_path / "halves")
    fit(make_model(), algorithm, make_task(), ON_GPU, tmp_path / "halves", resume=True)
    assert same(weights(tmp_path / "whole" / "last"), weights(tmp_path / "halves" / "last"))
    assert lines(tmp_path / "whole") == lines(tmp_path / "halves")
    assert replays


@pytest.mark.parametrize("name", ["warm-up", "actor-critic"])
def test_phases_are_recorded_each(tmp_path, replays, name):
    """What an algorithm owns changes in every step; recording one, which runs it a few times, must leave no trace."""
    models, found = {}, {}
    for compile in ("on", "off"):
        critic = ActorCritic(cost=EditDistance(), critic_width=8, critic_steps=10, delay=0.1)
        algorithm = WarmUp(Mle(), LEARNED if name == "warm-up" else critic, 12)
        models[compile] = make_model(dropout=0.0)
        fit(models[compile], algorithm, make_task(), replace(ON_GPU, compile=compile), tmp_path / compile)
        found[compile] = weights(tmp_path / compile / "last")
    assert len(replays) >= 2
    assert found["on"].keys() == found["off"].keys()
    if name == "warm-up":  # what is drawn at random comes from other generators in recorded steps
        for key, value in found["off"].items():
            torch.testing.assert_close(found["on"][key], value, rtol=1e-3, atol=1e-4)
    assert all(value.isfinite().all() for value in found["on"].values())


def test_every_step_has_draws_of_its_own(tmp_path, replays):
    """A recorded coin would always fall the same way."""
    losses = set()
    for seed in range(3):
        fit(make_model(), MIXED, make_task(), replace(ON_GPU, seed=seed, steps=10), tmp_path / str(seed))
        losses.add(lines(tmp_path / str(seed))[-1]["train_loss"])
    assert len(losses) == 3


@dataclass(frozen=True)
class Late:
    """A schedule: 0, and 1 from a step on, so that no draw decides anything."""

    scheduled: ClassVar[bool] = True
    step: int

    def __call__(self, step: int) -> float:
        return float(step >= self.step)


MOVING = {
    "scheduled sampling": ScheduledSampling(Late(20)),
    "mixed roll-outs": Searnn(Learned(), Mixed(reference_probability=Late(20)), EditDistance(), KLLoss(3.0)),
}


@pytest.mark.parametrize("name", MOVING)
def test_a_moving_probability_is_read_by_recorded_steps(tmp_path, replays, name):
    models = {}
    for compile, task in (("on", make_task()), ("off", padded(make_task()))):
        models[compile] = make_model(dropout=0.0)
        settings = replace(ON_GPU, compile=compile)
        fit(models[compile], MOVING[name], task, settings, tmp_path / compile)
    assert len(replays) == len(set(replays))  # one for each shape: all steps are one phase
    for one, other in zip(models["on"].parameters(), models["off"].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_what_is_not_ours_runs_as_usual(tmp_path, replays):
    own = from_callable(lambda output, target: float(output != target), make_task().vocab)
    algorithm = Searnn(Learned(), Learned(), own, KLLoss(3.0))
    fit(make_model(), algorithm, make_task(), replace(ON_GPU, compile="auto", steps=10), tmp_path)
    assert not replays


def test_what_cannot_be_recorded_is_refused_when_asked_for(tmp_path):
    own = Searnn(Learned(), Learned(), from_callable(lambda output, target: 1.0, make_task().vocab), KLLoss(3.0))
    with pytest.raises(SearnnError, match="asks the host at every step"):
        fit(make_model(), own, make_task(), ON_GPU, tmp_path)
