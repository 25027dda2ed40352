"""Settings of training: what is refused, the learning rate of every step, and the device."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from training_cases import SETTINGS, make_model, make_task

from searnn.algorithms import Mle
from searnn.training import find_device, fit
from searnn.training.optimisation import Plateau, learning_rate
from searnn.types import SearnnError

BAD: list[tuple[dict[str, Any], str]] = [
    ({"optimizer": "adagrad"}, "optimizer is 'adagrad', it must be sgd, adam or adamw"),
    ({"schedule": "step"}, "schedule is 'step'"),
    ({"precision": "8"}, "precision is '8'"),
    ({"lr": 0.0}, "lr is 0.0, it must be a number above 0"),
    ({"lr": math.nan}, "lr is nan"),
    ({"lr": math.inf}, "lr is inf"),
    ({"momentum": 1.0}, "momentum is 1.0, it must be a number of at least 0 and below 1"),
    ({"momentum": 0.5, "optimizer": "adam"}, "only sgd has one"),
    ({"weight_decay": -0.1}, "weight_decay is -0.1"),
    ({"clip": 0.0}, "clip is 0.0"),
    ({"clip": math.nan}, "clip is nan"),
    ({"batch_size": 0}, "batch_size is 0"),
    ({"steps": 0}, "steps is 0"),
    ({"minutes": -1.0}, "minutes is -1.0"),
    ({"patience": 0}, "patience is 0"),
    ({"eval_every": 0}, "eval_every is 0"),
    ({"beam": 0}, "beam is 0"),
    ({"lr_warmup": -1}, "lr_warmup is -1"),
    ({"plateau_factor": 1.0}, "plateau_factor is 1.0"),
    ({"plateau_patience": -1}, "plateau_patience is -1"),
    ({"min_lr": 0.1}, "a constant learning rate has none"),
    ({"min_lr": 0.9, "schedule": "linear"}, "must not be above lr"),
    ({"schedule": "linear", "steps": None, "patience": 1}, "a linear learning rate falls to an end that is known"),
    ({"schedule": "cosine", "steps": None, "patience": 1}, "give steps or minutes"),
    ({"eval_every": None}, "no time is given: give minutes or eval_every"),
    ({"schedule": "cosine", "lr_warmup": 40}, "lr_warmup is 40, it must be less than steps"),
    ({"steps": None}, "would never end"),
]


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(("change", "words"), BAD)
def test_bad_settings(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SearnnError) as error:
        replace(SETTINGS, **change)
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cpu:0", "", "cuda:-1", "tpu"])
def test_unknown_devices(name: str) -> None:
    with pytest.raises(SearnnError, match="must be auto, cpu, cuda or cuda:N"):
        find_device(name)


def test_a_device_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == torch.device("cpu")
    for name in ("cuda", "cuda:1"):
        with pytest.raises(SearnnError, match=f"the device is {name}, but this machine has 0 CUDA devices"):
            fit(make_model(), Mle(), make_task(), replace(SETTINGS, device=name), tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert find_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(SearnnError, match="this machine has 2"):
        find_device("cuda:2")


def test_a_precision_the_device_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match="16-mixed, which the CPU cannot do"):
        fit(make_model(), Mle(), make_task(), replace(SETTINGS, precision="16-mixed"), tmp_path)


def test_learning_rates() -> None:
    def rates(**changes: Any) -> list[float]:
        settings = replace(SETTINGS, lr=1.0, steps=4, **changes)
        return [learning_rate(settings, step, Plateau()) for step in range(5)]

    assert rates() == [1, 1, 1, 1, 1]
    assert rates(lr_warmup=4) == [0.25, 0.5, 0.75, 1, 1]
    assert rates(schedule="linear") == [1, 0.75, 0.5, 0.25, 0]
    assert rates(schedule="linear", min_lr=0.2) == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])
    assert rates(schedule="linear", lr_warmup=2) == [0.5, 1, 1, 0.5, 0]
    half = math.sqrt(0.5)
    assert rates(schedule="cosine") == pytest.approx([1, (1 + half) / 2, 0.5, (1 - half) / 2, 0])
    assert rates(schedule="plateau") == [1, 1, 1, 1, 1]
    assert rates(warm_up=2) == [1, 1, 1, 1, 1]
    assert rates(warm_up=2, warm_up_lr=4.0) == [4, 4, 1, 1, 1]
    assert rates(warm_up=2, warm_up_lr=4.0, schedule="linear") == [4, 3, 0.5, 0.25, 0]


@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize("patience", [0, 1, 3])
def test_plateau_equals_the_library(higher: bool, patience: int) -> None:
    draw = random.Random(patience)
    settings = replace(SETTINGS, lr=1.0, schedule="plateau", plateau_patience=patience, plateau_factor=0.3, min_lr=0.02)
    ours = Plateau()
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], 1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, "max" if higher else "min", factor=0.3, patience=patience, threshold=0.0, min_lr=0.02, eps=0.0
    )
    seen = set()
    for _ in range(60):
        metric = draw.choice([0.1, 0.2, 0.3, 0.4]) + draw.random() * draw.choice([0, 0.1])
        ours.observe(metric, higher, settings)
        theirs.step(metric)
        rate = learning_rate(settings, 5, ours)
        assert rate == pytest.approx(optimizer.param_groups[0]["lr"])
        seen.add(rate)
    assert len(seen) > 2
