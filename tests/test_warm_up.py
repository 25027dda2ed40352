"""Maximum likelihood first: the border between the two, what is attached, and resuming on either side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from training_cases import ADAM, Scaled, lines, make_model, make_task, random_searnn, same, weights

from searnn import schedules
from searnn.algorithms import Mle, WarmUp
from searnn.schedules import Linear
from searnn.training import fit
from searnn.training.objective import Objective
from searnn.types import SearnnError


class Owner(nn.Module):
    """MLE times a weight of its own, with a count that is kept in place and a copy that follows."""

    def attach(self, model: nn.Module) -> None:
        self.scale = nn.Linear(1, 1)
        self.copy = nn.Linear(1, 1).requires_grad_(False)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, model: Any, batch: Any, rng: torch.Generator) -> Any:
        with torch.no_grad():
            self.count.add_(1)
            self.copy.weight.lerp_(self.scale.weight, 0.1)
        update = Mle()(model, batch, rng)
        return replace(update, loss=update.loss * (1 + self.scale(torch.ones(1)).square().sum()))


def test_the_clock_of_the_second_begins_with_it() -> None:
    warm = WarmUp(Mle(), Scaled(Linear(1.0, 0.0, 10)), 3)
    assert [schedules.at(warm, step) for step in (0, 2)] == [Mle()] * 2
    assert schedules.at(warm, 3) == Scaled(1.0)
    assert schedules.at(warm, 8) == Scaled(0.5)
    at_once = WarmUp(Mle(), Scaled(2.0), 0)
    assert schedules.at(at_once, 0) == Scaled(2.0)
    assert at_once.normalisation == "batch"  # where the method says nothing
    with pytest.raises(SearnnError, match="steps of the warm-up is -1"):
        WarmUp(Mle(), Mle(), -1)


def test_outside_of_training_it_is_the_method_itself() -> None:
    model, task = make_model().eval(), make_task()
    batch = task.train(4, seed=0).batch(0)
    smoothed = Mle(label_smoothing=0.3, normalisation="cell")
    warm = WarmUp(Mle(), smoothed, 3)
    generator = torch.Generator()
    assert warm(model, batch, generator).loss == smoothed(model, batch, generator).loss
    assert warm.normalisation == "cell"


def test_before_the_border_it_is_the_first_and_after_it_the_second(tmp_path: Path) -> None:
    for name, algorithm, steps in (
        ("first", Mle(), 20),
        ("warm", WarmUp(Mle(), random_searnn(), 20), 20),
        ("longer", WarmUp(Mle(), random_searnn(), 20), 40),
    ):
        fit(make_model(), algorithm, make_task(), replace(ADAM, steps=steps), tmp_path / name)
    assert same(weights(tmp_path / "first" / "last"), weights(tmp_path / "warm" / "last"))
    assert lines(tmp_path / "longer")[:1] == lines(tmp_path / "first")[:1]
    fit(make_model(), Mle(), make_task(), ADAM, tmp_path / "only")
    assert not same(weights(tmp_path / "only" / "last"), weights(tmp_path / "longer" / "last"))


@pytest.mark.parametrize("stop", [10, 20, 30])
def test_resuming_gives_the_same_bits(tmp_path: Path, stop: int) -> None:
    """Before the border, on it and after it, with what the algorithm owns."""
    make = lambda: WarmUp(random_searnn(), Owner(), 20)  # noqa: E731
    fit(make_model(), make(), make_task(), ADAM, tmp_path / "whole")
    fit(make_model(), make(), make_task(), replace(ADAM, steps=stop), tmp_path / "halves")
    fit(make_model(), make(), make_task(), ADAM, tmp_path / "halves", resume=True)
    found = weights(tmp_path / "whole" / "last")
    assert same(found, weights(tmp_path / "halves" / "last"))
    assert found["algorithm.then.count"] == 20
    assert not torch.equal(found["algorithm.then.copy.weight"], found["algorithm.then.scale.weight"])
    assert "optimizer.algorithm.then.scale.weight.exp_avg" in found
    assert "optimizer.algorithm.then.copy.weight.exp_avg" not in found
    assert lines(tmp_path / "whole") == lines(tmp_path / "halves")


def test_what_is_attached_follows_from_the_seed() -> None:
    model, warm_ups = make_model(), [WarmUp(Mle(), Owner(), 1) for _ in range(3)]
    before = torch.random.get_rng_state()
    for warm, seed in zip(warm_ups, (0, 0, 1), strict=True):
        Objective(model, warm, seed)
    scales = [warm.then.scale.weight for warm in warm_ups]
    assert torch.equal(scales[0], scales[1])
    assert not torch.equal(scales[0], scales[2])
    assert torch.equal(before, torch.random.get_rng_state())


@dataclass(frozen=True)
class Shown:
    """A frozen algorithm that wants to see the model."""

    seen: list[nn.Module]

    def attach(self, model: nn.Module) -> None:
        self.seen.append(model)

    def __call__(self, model: Any, batch: Any, rng: torch.Generator) -> Any:
        return Mle()(model, batch, rng)


def test_both_are_shown_the_model() -> None:
    model, first, then = make_model(), Shown([]), Shown([])
    Objective(model, WarmUp(first, then, 1))
    assert first.seen[0] is then.seen[0] is model
