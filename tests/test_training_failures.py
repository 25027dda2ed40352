"""What breaks a training: numbers that are not finite, a folder in use, a full disk."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training_cases import QUICK, SETTINGS, Scaled, Spoil, Watch, lines, make_model, make_task, same, trained, weights

from searnn.algorithms import Mle
from searnn.training import fit
from searnn.training import loop as training_loop
from searnn.types import SearnnError


@pytest.mark.parametrize(
    ("deferred", "optimizer", "value"),
    [(False, "sgd", math.nan), (True, "sgd", math.inf), (False, "adam", math.inf), (True, "adam", math.nan)],
)
def test_a_loss_that_is_not_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deferred: bool, optimizer: str, value: float
) -> None:
    settings = replace(SETTINGS, eval_every=5, steps=12, optimizer=optimizer, momentum=0.9 * (optimizer == "sgd"))
    settings = replace(settings, lr=0.1 if optimizer == "sgd" else 0.01)
    if deferred:  # as on a device that must not be asked at every step
        monkeypatch.setattr(training_loop, "reads_are_free", lambda _: False)
    watch, model, folder = Watch(), make_model(), tmp_path / "run"
    with pytest.raises(SearnnError, match="not finite at step 7") as error:
        fit(model, Scaled(Spoil(7, value)), make_task(), settings, folder, watch=watch)
    message = str(error.value)
    assert "\n" not in message
    ids = make_task().train(8, 0).batch(7).ids
    assert ids is not None
    assert " ".join(map(str, ids)) in message
    assert f"{folder / 'last'}, of step 5" in message
    assert watch.stops == 1
    assert len(watch.steps) == (10 if deferred else 7)
    good = trained(replace(settings, steps=7), tmp_path / "good", Scaled())
    assert same(model.state_dict(), good.state_dict()), "the bad step has spoiled the parameters"
    five = trained(replace(settings, steps=5), tmp_path / "five", Scaled())
    saved = {name.removeprefix("model."): value for name, value in weights(folder / "last").items()}
    assert all(torch.equal(saved[name], value) for name, value in five.state_dict().items())
    assert [line["step"] for line in lines(folder)] == [5]
    # The fault removed, the run goes on from there as if nothing had happened.
    fit(make_model(), Scaled(), make_task(), settings, folder, resume=True)
    trained(settings, tmp_path / "whole", Scaled())
    assert same(weights(folder / "last"), weights(tmp_path / "whole" / "last"))


def test_a_gradient_that_is_not_finite(tmp_path: Path) -> None:
    class Steep:
        def __call__(self, model: Any, batch: Any, generator: torch.Generator) -> Any:
            update = Mle()(model, batch, generator)
            corner = torch.sqrt(next(model.parameters()).sum() * 0)  # 0, with a slope of infinity times 0
            return replace(update, loss=update.loss + corner)

    model = make_model()
    with pytest.raises(SearnnError, match=f"not finite at step 0.*{tmp_path / 'last'}, of step 0"):
        fit(model, Steep(), make_task(), QUICK, tmp_path)
    assert same(model.state_dict(), make_model().state_dict())


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    trained(QUICK, tmp_path)
    before = weights(tmp_path / "last")
    with pytest.raises(SearnnError, match="already holds a run: resume it, or give another folder"):
        trained(QUICK, tmp_path)
    assert same(weights(tmp_path / "last"), before)


def test_a_full_disk_at_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def full(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith("metrics.jsonl"):
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SearnnError, match=r"cannot write .*metrics\.jsonl: no space left.*free some space"):
        trained(QUICK, tmp_path)
    monkeypatch.setattr(os, "fsync", real)
    fit(make_model(), Mle(), make_task(), QUICK, tmp_path, resume=True)
    assert [line["step"] for line in lines(tmp_path)] == [3, 6]
