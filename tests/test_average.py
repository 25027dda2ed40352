"""The running average of the weights: what it is, that it is what is evaluated and kept, and that training goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from training_cases import ADAM, SETTINGS, lines, make_model, make_task, random_searnn, same, weights

from searnn.algorithms import Mle
from searnn.training import checkpoints, evaluate, fit
from searnn.training.average import Average
from searnn.types import SearnnError

AVERAGED = replace(ADAM, steps=12, eval_every=4, average=0.6)


def models_of(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for name, value in weights(folder).items() if name.startswith("model.")}


def test_the_average_is_the_recurrence_over_the_weights_of_every_step(tmp_path: Path) -> None:
    fit(make_model(), Mle(), make_task(), replace(ADAM, steps=12, keep_every=1), tmp_path / "plain")
    steps = [weights(path) for path in checkpoints.kept(tmp_path / "plain").values()]
    mean = steps[0]
    for step, now in enumerate(steps[1:], 1):
        decay = min(0.6, (1 + step) / (10 + step))
        mean = {name: decay * mean[name] + (1 - decay) * now[name] for name in now}
    fit(make_model(), Mle(), make_task(), replace(AVERAGED, keep_every=12), tmp_path / "averaged")
    kept = weights(checkpoints.kept(tmp_path / "averaged")[12])
    assert all(torch.allclose(kept[name], mean[name], atol=1e-6) for name in mean)
    assert not all(torch.allclose(kept[name], steps[-1][name], atol=1e-4) for name in mean)


def test_updates_are_those_without_an_average_and_the_model_keeps_its_own_weights(tmp_path: Path) -> None:
    plain, averaged = make_model(), make_model()
    fit(plain, random_searnn(), make_task(), replace(AVERAGED, average=0.0), tmp_path / "plain")
    fit(averaged, random_searnn(), make_task(), AVERAGED, tmp_path / "averaged")
    assert same(plain.state_dict(), averaged.state_dict())
    assert same(models_of(tmp_path / "plain" / "last"), models_of(tmp_path / "averaged" / "last"))


def test_the_record_and_the_best_model_are_of_the_average(tmp_path: Path) -> None:
    task = make_task()
    fit(make_model(), Mle(), task, AVERAGED, tmp_path)
    model = make_model()
    meta = checkpoints.load_model(tmp_path / "best", model)
    found = evaluate(model, task.valid(64), task)
    assert found[task.metric] == pytest.approx(meta["record"][f"valid_{task.metric}"])
    assert not same(models_of(tmp_path / "best"), models_of(tmp_path / "last"))


@pytest.mark.parametrize("cut", [3, 4, 7])
def test_a_resumed_run_has_the_same_average_to_the_bit(cut: int, tmp_path: Path) -> None:
    fit(make_model(), random_searnn(), make_task(), AVERAGED, tmp_path / "whole")
    fit(make_model(), random_searnn(), make_task(), replace(AVERAGED, steps=cut), tmp_path / "cut")
    fit(make_model(), random_searnn(), make_task(), AVERAGED, tmp_path / "cut", resume=True)
    assert same(weights(tmp_path / "whole" / "last"), weights(tmp_path / "cut" / "last"))
    assert same(weights(tmp_path / "whole" / "best"), weights(tmp_path / "cut" / "best"))
    assert lines(tmp_path / "whole") == lines(tmp_path / "cut")


def test_an_average_cannot_begin_in_the_middle(tmp_path: Path) -> None:
    fit(make_model(), Mle(), make_task(), replace(AVERAGED, average=0.0, steps=4), tmp_path)
    with pytest.raises(SearnnError, match=r"average was 0\.0 and is now 0\.6"):
        fit(make_model(), Mle(), make_task(), AVERAGED, tmp_path, resume=True)


@pytest.mark.parametrize("decay", [-0.1, 1.0, float("nan")])
def test_a_decay_outside_its_range_is_refused(decay: float) -> None:
    with pytest.raises(SearnnError, match=r"average is .*, it must be a number of at least 0 and below 1"):
        replace(SETTINGS, average=decay)


def test_the_last_model_is_opened_as_it_was_evaluated(tmp_path: Path) -> None:
    settings = replace(AVERAGED, keep_every=12)
    fit(make_model(), Mle(), make_task(), settings, tmp_path)
    model = make_model(seed=3)
    checkpoints.load_model(tmp_path / "last", model)
    kept = weights(checkpoints.kept(tmp_path)[12])
    assert same({f"model.{name}": value for name, value in model.state_dict().items()}, kept)
    assert not same(models_of(tmp_path / "last"), kept)


def test_tied_weights_have_one_average_under_both_names() -> None:
    model = torch.nn.ModuleDict({"one": torch.nn.Linear(2, 2), "other": torch.nn.Linear(2, 2)})
    model["other"].weight = model["one"].weight
    average = Average(model, 0.5)
    with torch.no_grad():
        model["one"].weight += 1
    average.update(100)
    tensors = average.tensors()
    assert tensors["average.one.weight"] is tensors["average.other.weight"]
    assert torch.allclose(tensors["average.one.weight"], model["one"].weight - 0.5)


def test_a_model_that_is_moved_while_the_average_is_in_it_gets_its_own_weights_back() -> None:
    model = torch.nn.Linear(2, 2)
    average = Average(model, 0.5)
    with torch.no_grad():
        model.weight += 1
    own = model.weight.detach().clone()
    with average.in_place():
        assert not torch.equal(model.weight, own)
        model.double().float()
    assert torch.equal(model.weight, own)


def test_a_run_of_a_version_without_averages_goes_on(tmp_path: Path) -> None:
    fit(make_model(), Mle(), make_task(), replace(ADAM, steps=4), tmp_path)
    state = tmp_path / "last" / "state.json"
    told = json.loads(state.read_text())
    del told["state"]["settings"]["average"], told["checksum"], told["size"]
    state.write_text(json.dumps(told))
    assert fit(make_model(), Mle(), make_task(), replace(ADAM, steps=8), tmp_path, resume=True).steps == 8
