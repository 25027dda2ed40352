"""Training on a GPU: no step waits for it, and a bad step found late has spoiled nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training_cases import ADAM, Scaled, Spoil, lines, make_model, make_task, random_searnn

from searnn.algorithms import Mle
from searnn.interfaces import Algorithm
from searnn.training import fit
from searnn.training import loop as training_loop
from searnn.types import SearnnError

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("algorithm", [Mle(), random_searnn()], ids=["mle", "searnn"])
def test_no_step_waits_for_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: Algorithm) -> None:
    settings = replace(ADAM, device="cuda", steps=40, eval_every=40)
    real = training_loop._Run.update

    def update(run: Any) -> torch.Tensor:
        torch.cuda.set_sync_debug_mode("error" if run.counters.step > 2 else "default")
        try:
            return real(run)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    monkeypatch.setattr(training_loop._Run, "update", update)
    assert fit(make_model(), algorithm, make_task(), settings, tmp_path).steps == 40


@pytest.mark.parametrize("precision", ["32-true", "16-mixed", "bf16-mixed", "64-true"])
def test_training_on_the_gpu(tmp_path: Path, precision: str) -> None:
    settings = replace(ADAM, device="cuda", precision=precision, steps=20)
    fit(make_model(), random_searnn(), make_task(), settings, tmp_path)
    fit(make_model(), random_searnn(), make_task(), replace(settings, steps=100), tmp_path, resume=True)
    errors = [line["valid_error"] for line in lines(tmp_path)]  # not the loss: its targets are drawn anew at each step
    assert errors[-1] < 0.8 * errors[0]


def test_a_bad_step_on_the_gpu_is_found_late_and_spoils_nothing(tmp_path: Path) -> None:
    settings = replace(ADAM, device="cuda", eval_every=100)
    model = make_model()
    with pytest.raises(SearnnError, match="not finite at step 7"):
        fit(model, Scaled(Spoil(7, math.nan)), make_task(), settings, tmp_path / "bad")
    good = make_model()
    fit(good, Scaled(), make_task(), replace(settings, steps=7), tmp_path / "good")
    for one, other in zip(model.parameters(), good.parameters(), strict=True):
        torch.testing.assert_close(one, other)
