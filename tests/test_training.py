"""The training loop against plain loops, scripted metrics and hand-worked learning rates."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from training_cases import (
    ADAM,
    QUICK,
    SETTINGS,
    Scaled,
    Scripted,
    Watch,
    lines,
    make_model,
    make_task,
    random_searnn,
    same,
    trained,
    weights,
)

from searnn import rng
from searnn.algorithms import Mle
from searnn.costs import EditDistance
from searnn.decoding.decode import decode, decode_beam
from searnn.schedules import Linear
from searnn.sequences.ends import strip
from searnn.training import Plan, evaluate, fit, load_model, predict_tokens, read_records
from searnn.training import loop as training_loop
from searnn.types import SearnnError

# The steps themselves.


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam", "adamw"])
def test_equals_a_plain_loop(tmp_path: Path, optimizer: str) -> None:
    decay = 0.01
    kind, momentum = ("sgd", 0.9) if optimizer == "momentum" else (optimizer, 0.0)
    lr = 0.3 if kind == "sgd" else 0.02
    settings = replace(
        QUICK, optimizer=kind, momentum=momentum, lr=lr, weight_decay=decay, clip=0.5, precision="64-true", steps=12
    )
    found = trained(settings, tmp_path, dropout=0.0)

    plain = make_model(dropout=0.0).double()
    makers = {
        "sgd": lambda ps: torch.optim.SGD(ps, lr, weight_decay=decay),
        "momentum": lambda ps: torch.optim.SGD(ps, lr, momentum=0.9, weight_decay=decay),
        "adam": lambda ps: torch.optim.Adam(ps, lr, weight_decay=decay),
        "adamw": lambda ps: torch.optim.AdamW(ps, lr, weight_decay=decay),
    }
    stepper, data, norms = makers[optimizer](plain.parameters()), make_task().train(8, 0), []
    for step in range(12):
        stepper.zero_grad()
        Mle()(plain, data.batch(step), torch.Generator()).loss.backward()
        norm = math.sqrt(sum(float((p.grad**2).sum()) for p in plain.parameters()))
        for parameter in plain.parameters():
            parameter.grad *= min(1.0, 0.5 / (norm + 1e-6))  # the library's guard against a norm of 0
        norms.append(norm)
        stepper.step()
    for one, other in zip(found.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert max(norms) > 0.5, "nothing was clipped"
    records = lines(tmp_path)
    assert records[0]["gradient_norm"] == pytest.approx(sum(norms[:3]) / 3, rel=1e-4)
    assert records[3]["gradient_norm"] == pytest.approx(sum(norms[9:]) / 3, rel=1e-4)


def test_same_seed_same_bits(tmp_path: Path) -> None:
    for name in ("a", "b"):
        trained(replace(ADAM, steps=12, eval_every=6), tmp_path / name, random_searnn())
        torch.rand(random.randrange(1, 9))  # the global generator is in another state for the second run
    for part in ("last", "best"):
        assert same(weights(tmp_path / "a" / part), weights(tmp_path / "b" / part))
    assert lines(tmp_path / "a") == lines(tmp_path / "b")


CHANGES: list[dict[str, Any]] = [
    {"seed": 1},
    {"lr": 0.4},
    {"momentum": 0.5},
    {"weight_decay": 0.1},
    {"optimizer": "adam", "weight_decay": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.1},
    {"schedule": "linear"},
    {"schedule": "cosine"},
    {"schedule": "linear", "min_lr": 0.1},
    {"lr_warmup": 3},
    {"clip": 0.1},
    {"clip": None},
    {"batch_size": 9},
    {"steps": 5},
    {"precision": "64-true"},
]


def test_every_setting_changes_the_weights(tmp_path: Path) -> None:
    base = replace(QUICK, eval_every=100)
    settings = [base, *(replace(base, **change) for change in CHANGES)]
    results = []
    for number, one in enumerate(settings):
        clip = {"clip": 0.3} if "clip" not in (CHANGES[number - 1] if number else {}) else {}
        model = trained(replace(one, **clip), tmp_path / str(number))
        results.append(torch.cat([parameter.detach().double().flatten() for parameter in model.parameters()]))
    for one in range(len(results)):
        for other in range(one):
            assert not torch.equal(results[one], results[other]), (settings[one], settings[other])


def test_dropout_is_on_in_training_and_off_in_evaluation(tmp_path: Path) -> None:
    dropped, plain = trained(QUICK, tmp_path / "a", dropout=0.5), trained(QUICK, tmp_path / "b", dropout=0.0)
    assert not same(dropped.state_dict(), plain.state_dict())
    plain.load_state_dict(dropped.state_dict())
    task = make_task()
    assert dropped.training
    assert predict_tokens(dropped, task.valid(4)) == predict_tokens(plain, task.valid(4))


def test_schedules_in_the_algorithm_follow_the_step(tmp_path: Path) -> None:
    trained(QUICK, tmp_path, Scaled(Linear(1.0, 0.0, 10)))
    assert [line["train_factor"] for line in lines(tmp_path)] == pytest.approx([0.9, 0.6])


def test_randomness_is_a_function_of_seed_and_step(tmp_path: Path) -> None:
    def drawing(model: Any, batch: Any, generator: torch.Generator) -> Any:
        update = Mle()(model, batch, generator)
        return replace(update, logs={"own": torch.rand((), generator=generator), "dropout": torch.rand(())})

    draws: dict[int, list[tuple[float, float]]] = {}
    for seed in (0, 1):
        settings = replace(QUICK, steps=3, eval_every=1, seed=seed)
        fit(make_model(dropout=0.0), drawing, make_task(), settings, tmp_path / str(seed))
        draws[seed] = [(line["train_own"], line["train_dropout"]) for line in lines(tmp_path / str(seed))]
        for step, (own, dropout) in enumerate(draws[seed]):
            assert own == torch.rand((), generator=rng.generator(seed, "algorithm", step)).item()
            assert dropout == torch.rand((), generator=rng.generator(seed, "dropout", step)).item()
    assert len({number for pairs in draws.values() for pair in pairs for number in pair}) == 12


def test_an_algorithm_with_parameters_is_trained_and_saved(tmp_path: Path) -> None:
    class Critic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Parameter(torch.tensor(3.0))

        def forward(self, model: Any, batch: Any, generator: torch.Generator) -> Any:
            update = Mle()(model, batch, generator)
            return replace(update, loss=update.loss + (self.value - 1) ** 2)

    critic = Critic()
    fit(make_model(), critic, make_task(), replace(QUICK, lr=0.1, clip=None), tmp_path)
    assert critic.value.item() == pytest.approx(1 + 2 * 0.8**6)
    assert weights(tmp_path / "last")["algorithm.value"] == critic.value


def test_plateau_cuts_the_rate_of_the_run(tmp_path: Path) -> None:
    settings = replace(SETTINGS, lr=0.4, schedule="plateau", plateau_patience=1, steps=12, eval_every=2)
    fit(make_model(), Mle(), Scripted([5, 5, 5, 4, 4, 4]), settings, tmp_path)
    assert [line["learning_rate"] for line in lines(tmp_path)] == [0.4, 0.4, 0.4, 0.2, 0.2, 0.2]
    assert json.loads((tmp_path / "last" / "state.json").read_text())["state"]["plateau"]["scale"] == 0.25


# Evaluation, the best model and the end.


def test_evaluation_decodes_freely() -> None:
    task, model = make_task(), trained_model()
    found = evaluate(model, task.valid(5), task)
    outputs, targets = [], []
    for batch in task.valid(1):
        tokens = decode(model, batch)[0].tolist()
        outputs.append(tokens[: next((i for i, t in enumerate(tokens) if t >= task.vocab.eos), len(tokens))])
        targets.append([t for t in batch.targets[0].tolist() if t < task.vocab.eos])
    assert found == task.metrics(outputs, targets)
    assert found["error"] > 0

    hidden = [replace(batch, targets=torch.full_like(batch.targets, task.vocab.pad)) for batch in task.valid(5)]
    assert predict_tokens(model, hidden) == predict_tokens(model, task.valid(5)), "it has seen the truth"
    assert predict_tokens(model, task.valid(5), beam=3) != predict_tokens(model, task.valid(5))


@pytest.mark.parametrize("penalty", [0.0, 1.0, 3.0])
def test_the_length_penalty_of_an_evaluation_is_that_of_its_beam(penalty: float) -> None:
    task, model = make_task(), make_model(dropout=0.0)
    outputs, targets = [], []
    for batch in task.valid(5):
        outputs += strip(decode_beam(model, batch, width=4, length_penalty=penalty)[0][:, 0], task.vocab)
        targets += strip(batch.targets, task.vocab)
    assert evaluate(model, task.valid(5), task, beam=4, length_penalty=penalty) == task.metrics(outputs, targets)
    assert predict_tokens(model, task.valid(5), beam=4, length_penalty=penalty) == outputs
    other = predict_tokens(model, task.valid(5), beam=4, length_penalty=3.0 - penalty)
    assert other != outputs


def trained_model() -> nn.Module:
    model = make_model(dropout=0.0)
    optimizer, data = torch.optim.Adam(model.parameters(), 0.02), make_task().train(8, 0)
    for step in range(25):
        optimizer.zero_grad()
        Mle()(model, data.batch(step), torch.Generator()).loss.backward()
        optimizer.step()
    return model


def test_evaluation_of_nothing_and_of_an_unknown_metric() -> None:
    task = make_task()
    with pytest.raises(SearnnError, match="nothing to evaluate"):
        evaluate(make_model(), [], task)
    task.metric = "bleu"
    with pytest.raises(SearnnError, match="names bleu as its metric, but gives error"):
        evaluate(make_model(), task.valid(4), task)


@pytest.mark.parametrize("higher", [False, True])
def test_the_best_is_kept(tmp_path: Path, higher: bool) -> None:
    values = [0.5, 0.3, 0.4, float("nan"), 0.3, 0.35]
    task = Scripted([1 - value for value in values] if higher else values, higher)
    watch = Watch()
    outcome = fit(make_model(), Mle(), task, replace(SETTINGS, steps=12, eval_every=2), tmp_path, watch=watch)
    assert (outcome.best_step, outcome.steps, outcome.stopped) == (4, 12, "steps")
    assert outcome.best_metric == pytest.approx(0.7 if higher else 0.3)
    best = make_model(seed=3)
    meta = load_model(tmp_path / "best", best)
    assert meta["record"]["step"] == 4
    assert same(best.state_dict(), trained(replace(SETTINGS, steps=4), tmp_path / "four").state_dict())
    assert [record["step"] for record in watch.records] == [2, 4, 6, 8, 10, 12]
    assert [step for _, step in watch.best] == [2, 4, 4, 4, 4, 4]
    assert lines(tmp_path)[3]["valid_score"] is None


def test_the_best_is_chosen_by_the_validation_data_alone(tmp_path: Path) -> None:
    class Splits(Scripted):
        """Gets worse on whatever is not the validation data."""

        def test(self, batch_size: int) -> Any:
            raise AssertionError("the training has looked at the test data")

        def metrics(self, outputs: Any, targets: Any) -> dict[str, float]:
            valid = [target for batch in self.valid(5) for target in strip(batch.targets, self.vocab)]
            assert sorted(targets) == sorted(valid)
            return super().metrics(outputs, targets)

    task = Splits([3, 1, 2])
    assert fit(make_model(), Mle(), task, replace(SETTINGS, steps=6, eval_every=2), tmp_path).best_step == 4
    assert task.calls == 3


def test_patience(tmp_path: Path) -> None:
    task = Scripted([5, 4, 4, 3, 3, 3, 2])
    outcome = fit(make_model(), Mle(), task, replace(SETTINGS, eval_every=2, patience=2), tmp_path)
    assert (outcome.stopped, outcome.steps, outcome.best_step) == ("patience", 12, 8)
    again = fit(make_model(), Mle(), task, replace(SETTINGS, eval_every=2, patience=2), tmp_path, resume=True)
    assert (again.stopped, again.steps) == ("patience", 12)


def clock(now: list[float]) -> Any:
    """In place of the module `time`: it is what `now` says."""
    return SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: now[0])


def test_minutes_count_what_was_spent_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def slow(model: Any, batch: Any, generator: torch.Generator) -> Any:
        now[0] += 6.0
        return Mle()(model, batch, generator)

    monkeypatch.setattr(training_loop, "time", clock(now))
    settings = replace(SETTINGS, steps=None, minutes=1.0, eval_every=4)

    def run(minutes: float, resume: bool) -> tuple[str, int]:
        outcome = fit(make_model(), slow, make_task(), replace(settings, minutes=minutes), tmp_path, resume=resume)
        return outcome.stopped, outcome.steps

    assert run(1.0, False) == ("minutes", 10)
    assert [line["step"] for line in lines(tmp_path)] == [4, 8, 10]
    assert run(1.0, True) == ("minutes", 10)
    assert run(1.25, True) == ("minutes", 13)
    assert [line["step"] for line in lines(tmp_path)] == [4, 8, 12, 13]


def test_a_run_whose_last_save_took_its_last_seconds_is_saved_as_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, real = [0.0], training_loop._Run._write_state

    def slow_save(run: Any) -> None:
        real(run)
        now[0] += 25.0

    monkeypatch.setattr(training_loop, "time", clock(now))
    monkeypatch.setattr(training_loop._Run, "_write_state", slow_save)
    settings = replace(SETTINGS, steps=None, minutes=1.0, eval_every=4)
    assert fit(make_model(), Mle(), make_task(), settings, tmp_path).stopped == "minutes"
    saved = json.loads((tmp_path / "last" / "state.json").read_text())
    assert saved["state"]["counters"]["seconds"] >= 60


def test_records_say_what_is_needed(tmp_path: Path) -> None:
    wanted = {"step", "valid_error", "train_loss", "gradient_norm", "learning_rate", "steps_per_second", "seconds"}
    wanted |= {"equal_cost_share", "cost_spread", "cheapest_not_true_share", "entropy"}
    wanted |= {"teacher_forced_loss", "free_running_loss", "exposure_gap"}
    for name, algorithm, cost in (("mle", Mle(), EditDistance()), ("searnn", random_searnn(), None)):
        outcome = fit(make_model(), algorithm, make_task(), QUICK, tmp_path / name, cost=cost)
        records = read_records(tmp_path / name / "metrics.jsonl")
        assert [record["step"] for record in records] == [3, 6]
        for record in records:
            assert wanted <= record.keys()
            assert all(math.isfinite(value) for value in record.values())
        assert 0 < records[0]["seconds"] < records[1]["seconds"] <= outcome.seconds
        assert 0 < outcome.seconds_per_step * 6 < outcome.seconds
        assert records[1]["steps_per_second"] > 0


def test_losses_are_means_since_the_last_evaluation(tmp_path: Path) -> None:
    losses: list[float] = []

    class Listening(Watch):
        def on_step(self, step: int, loss: torch.Tensor, seconds: float) -> None:
            losses.append(float(loss))

    fit(make_model(), Mle(), make_task(), replace(QUICK, steps=8), tmp_path, watch=Listening())
    means = [sum(losses[:3]) / 3, sum(losses[3:6]) / 3, sum(losses[6:]) / 2]
    assert [line["train_loss"] for line in lines(tmp_path)] == pytest.approx(means)


def test_the_watcher_is_told(tmp_path: Path) -> None:
    watch = Watch()
    fit(make_model(), Mle(), make_task(), QUICK, tmp_path, watch=watch)
    assert [replace(plan, seconds=0.0) for plan in watch.plans] == [Plan(0, 6, None, 0.0, "error")]
    assert watch.steps == [1, 2, 3, 4, 5, 6]
    assert watch.records == read_records(tmp_path / "metrics.jsonl")
    assert watch.stops == 1
