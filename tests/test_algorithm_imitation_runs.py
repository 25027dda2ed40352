"""The imitation family in training: for every kind of model, cut into shards, stopped and resumed, and to the end."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, rng, shard_rng
from cases import make_model as tiny_model
from imitation_cases import FAMILY, attached, close, value_and_gradient
from training_cases import ADAM, make_model, make_task, same, weights

from searnn import rng as streams
from searnn import schedules
from searnn.algorithms.aggrevate import Aggrevate
from searnn.algorithms.aggrevated import Aggrevated
from searnn.algorithms.bandit_lols import BanditLols
from searnn.algorithms.dagger import Dagger
from searnn.algorithms.lols import Lols
from searnn.algorithms.scheduled_sampling import ScheduledSampling
from searnn.algorithms.searn import Searn
from searnn.costs import Hamming
from searnn.data import sharding
from searnn.losses import KLLoss
from searnn.models import EncoderDecoder, Transformer
from searnn.schedules import InverseSigmoid
from searnn.tasks import Copy
from searnn.training import TrainingSettings, evaluate, fit

family = pytest.mark.parametrize("name", FAMILY)


@family
@pytest.mark.parametrize("setting", ["two-directions", "transformer"])
@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_it_runs_for_every_model_and_kind_of_output(name, vocab, setting):
    model = tiny_model(vocab, spread=1.5, **SETTINGS[setting]).train()
    batch = make_batch(vocab, lengths=(4, 1, 3), room=1)
    algorithm = attached(FAMILY[name](), model)
    for step in (0, 3, 4):
        model.zero_grad()
        update = schedules.at(algorithm, step)(model, batch, rng())
        update.loss.backward()
        assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
        assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
        assert all(value.ndim == 0 and torch.isfinite(value) for value in update.logs.values())
        assert 3 <= int(update.cells) <= batch.targets.numel()


@family
@pytest.mark.parametrize("over", ["batch", "cell"])
def test_parts_give_the_update_of_the_whole(name, over):
    model, batch = tiny_model(FREE, seed=2, spread=2.0), make_batch(FREE, lengths=(5, 2, 4, 1, 3, 5, 2), room=1)
    algorithm = attached(FAMILY[name](normalisation=over), model)
    for step in (0, 4):
        whole = value_and_gradient(algorithm, model, batch, step=step)
        model.zero_grad()
        losses, weights = [], []
        for index in range(3):
            shard = sharding.deal(batch.lengths, index, 3)
            update = schedules.at(algorithm, step)(model, sharding.take(batch, shard.rows), shard_rng(shard))
            losses.append(update.loss)
            weights.append(len(shard.rows) / 7 if over == "batch" else update.cells)
        loss = sum(loss * weight / sum(weights) for loss, weight in zip(losses, weights, strict=True))
        loss.backward()
        gradient = torch.cat([p.grad.flatten() if p.grad is not None else p.flatten() * 0 for p in model.parameters()])
        close((loss.detach(), gradient), whole)


@pytest.mark.parametrize("name", ["searn", "dagger", "aggrevate"])
def test_stopped_and_resumed_it_is_the_run_that_never_stopped(tmp_path: Path, name):
    """The copies of the model come back: in the middle of a round, and where one begins."""
    settings = replace(ADAM, steps=8, eval_every=8)
    fit(make_model(), FAMILY[name](), make_task(), settings, tmp_path / "whole")
    for seed, steps in enumerate((4, 6, 8)):
        fit(
            make_model(seed=seed), FAMILY[name](), make_task(), replace(settings, steps=steps), tmp_path / "broken",
            resume=seed > 0,
        )  # fmt: skip
    whole, broken = (weights(tmp_path / folder / "last") for folder in ("whole", "broken"))
    assert same(whole, broken)
    copies = [value for tensor, value in whole.items() if "copies" in tensor and tensor.endswith("project.weight")]
    assert len(copies) == 2
    assert not torch.equal(*copies)


LEARNS = {
    "scheduled-sampling": lambda: ScheduledSampling(InverseSigmoid(200, 0.0, 0.5)),
    "searn": lambda: Searn(cost=Hamming(), loss=KLLoss(3.0), rounds=4, round_steps=40),
    "lols": lambda: Lols(Hamming(), KLLoss(3.0)),
    "bandit-lols": lambda: BanditLols(Hamming()),
    "dagger": lambda: Dagger(round_steps=30, buffer=4),
    "aggrevate": lambda: Aggrevate(cost=Hamming(), loss=KLLoss(3.0), round_steps=30, buffer=4),
    "aggrevated": lambda: Aggrevated(Hamming()),
}


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reverse"])
@pytest.mark.parametrize("name", [*LEARNS, "two passes"])
def test_it_learns(tmp_path: Path, name, reverse):
    symbols, length, rate, steps, examples = 4, 4, 0.01, 200, 600
    if name == "bandit-lols":  # one cost per sequence teaches little at a time: a smaller task, more gently
        symbols, length, rate, steps = 2, 3, 0.004, 1200
    if name == "two passes":  # a Transformer knows 600 strings by heart before it sees the rule, by MLE too
        rate, steps, examples = 0.005, 500, 3000
    task = Copy(symbols=symbols, length=length, examples=examples, reverse=reverse)
    init = streams.generator(0, "init")
    if name == "two passes":
        model = Transformer(task.vocab, source_size=symbols, width=32, layers=2, heads=2, rng=init)
    else:
        model = EncoderDecoder(
            task.vocab, source_size=symbols, width=32, attention="additive", bidirectional=True, rng=init
        )
    settings = TrainingSettings(
        optimizer="adam", lr=rate, schedule="linear", batch_size=32, steps=steps, eval_every=steps, device="cpu"
    )
    algorithm = LEARNS["scheduled-sampling" if name == "two passes" else name]()
    fit(model, algorithm, task, settings, tmp_path, cost=Hamming())
    assert evaluate(model, task.test(60), task)["error"] < 0.01
