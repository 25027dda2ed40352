"""The methods of expected cost in training: resumed, cut into shards, on any model; and that they learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import FREE, KNOWN, SETTINGS, make_batch, rng
from cases import make_model as random_model
from training_cases import ADAM, lines, make_model, make_task, same, weights

from searnn import Mle
from searnn.algorithms.actor_critic import ActorCritic
from searnn.algorithms.mixer import Mixer
from searnn.algorithms.mrt import Mrt
from searnn.algorithms.reinforce import Reinforce
from searnn.algorithms.self_critical import SelfCritical
from searnn.algorithms.warm_up import WarmUp
from searnn.costs import EditDistance
from searnn.models import EncoderDecoder
from searnn.rng import generator
from searnn.schedules import Linear
from searnn.tasks import Copy
from searnn.training import evaluate, fit, load_model

COST = EditDistance()
METHODS: dict[str, Callable[[], Any]] = {
    "reinforce": lambda: Reinforce(cost=COST, samples=2, entropy_bonus=0.01),
    "mixer": lambda: Mixer(cost=COST, cross_entropy_cells=Linear(4, 0, 8)),
    "self-critical": lambda: SelfCritical(cost=COST, samples=8),
    "leave-one-out": lambda: SelfCritical(cost=COST, baseline="leave-one-out", samples=3),
    "mrt": lambda: Mrt(cost=COST, samples=3),
    "actor-critic": lambda: ActorCritic(cost=COST, critic_width=6, critic_steps=2, delay=0.1),
}
methods = pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)
QUICK = replace(ADAM, steps=8, eval_every=4)


@methods
def test_a_resumed_run_is_the_unbroken_one(make: Callable[[], Any], tmp_path: Path) -> None:
    """Bit for bit, also where the warm-up ends, and where the phase changes."""
    fit(make_model(), WarmUp(Mle(), make(), 2), make_task(), QUICK, tmp_path / "whole")
    for steps in (2, 3, 6, 8):
        settings = replace(QUICK, steps=steps)
        fit(make_model(), WarmUp(Mle(), make(), 2), make_task(), settings, tmp_path / "broken", resume=steps > 2)
    assert same(weights(tmp_path / "whole" / "last"), weights(tmp_path / "broken" / "last"))
    assert lines(tmp_path / "whole")[-1] == lines(tmp_path / "broken")[-1]


@methods
def test_parts_give_the_update_of_the_whole(make: Callable[[], Any], tmp_path: Path) -> None:
    for accumulate in (1, 3):
        settings = replace(QUICK, steps=5, optimizer="sgd", lr=0.05, accumulate=accumulate, precision="64-true")
        fit(make_model(dropout=0.0), make(), make_task(), settings, tmp_path / str(accumulate))
    whole, cut = (weights(tmp_path / folder / "last") for folder in ("1", "3"))
    assert whole.keys() == cut.keys()
    for name, value in whole.items():
        if not name.startswith("meter."):
            torch.testing.assert_close(cut[name], value, rtol=1e-9, atol=1e-12, msg=lambda told, name=name: name + told)


@methods
@pytest.mark.parametrize("setting", ["lstm-attention", "aligned", "transformer-dropout"])
@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_any_model_gets_a_finite_gradient(make: Callable[[], Any], setting: str, vocab: Any) -> None:
    model, batch = random_model(vocab, spread=1.0, **SETTINGS[setting]).train(), make_batch(vocab, room=1)
    algorithm = make()
    if hasattr(algorithm, "attach"):
        algorithm.attach(model)
    if hasattr(algorithm, "at"):
        algorithm = algorithm.at(6)
    update = algorithm(model, batch, rng())
    update.loss.backward()
    assert torch.isfinite(update.loss)
    assert all(torch.isfinite(value).all() and value.ndim == 0 for value in update.logs.values())
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert sum(gradient.abs().sum() for gradient in gradients) > 0
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


# Updates of maximum likelihood, so few that more than every tenth symbol is still wrong; updates in all; the method.
LEARNERS: dict[str, tuple[int, int, Callable[[], Any]]] = {
    "reinforce": (25, 400, lambda: Reinforce(cost=COST, samples=4)),
    "mixer": (25, 400, lambda: Mixer(cost=COST, cross_entropy_cells=Linear(3, 0, 200), samples=4)),
    "self-critical": (25, 400, lambda: SelfCritical(cost=COST, samples=4)),
    "leave-one-out": (25, 400, lambda: SelfCritical(cost=COST, samples=4, baseline="leave-one-out")),
    "mrt": (25, 400, lambda: Mrt(cost=COST, samples=8)),
    "actor-critic": (40, 1000, lambda: ActorCritic(cost=COST, critic_width=48, critic_steps=360, delay=0.1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reverse"])
@pytest.mark.parametrize("name", LEARNERS)
def test_it_learns(name: str, reverse: bool, tmp_path: Path) -> None:
    warm_up, steps, make = LEARNERS[name]
    task = Copy(symbols=5, length=4, examples=2000, seed=1, reverse=reverse)
    init = generator(0, "init")
    model = EncoderDecoder(task.vocab, source_size=task.source_size, width=48, attention="additive", rng=init)
    settings = replace(ADAM, lr=0.003, batch_size=32, steps=steps, eval_every=warm_up)
    fit(model, WarmUp(Mle(), make(), warm_up), task, settings, tmp_path)
    assert lines(tmp_path)[0]["valid_error"] > 0.1, "the warm-up has left too little to learn"
    load_model(tmp_path / "best", model)  # the last one may be in one of the set-backs that sampled gradients bring
    assert evaluate(model, task.test(100), task)["error"] < 0.01
