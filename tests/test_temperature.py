"""An alpha that follows from the entropy of the targets: against plain Python, at any scale, resumed and in shards."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import FREE, make_batch, make_model, rng
from distributed_cases import uneven_task
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import copy_flags
from training_cases import ADAM, lines, make_task, same, weights
from training_cases import make_model as make_small

from searnn import Searnn, search
from searnn.algorithms import Mle, Searn, WarmUp
from searnn.cli import main
from searnn.costs import EditDistance
from searnn.losses import JSLoss, KLLoss, ReverseKLLoss
from searnn.losses.temperature import Temperature
from searnn.policies import Learned, Mixed
from searnn.reports.doctor import examine
from searnn.reports.recorded import read_run
from searnn.rng import spawn
from searnn.runs import load
from searnn.runs.explaining import choices_of
from searnn.samplers import TopTokens
from searnn.training import fit
from searnn.types import SearnnError


def entropy_beyond_ties(costs: list[float], alpha: float) -> float | None:
    """Of one cell, on Python lists; None where all costs are equal."""
    weights = [math.exp(-alpha * (cost - min(costs))) for cost in costs]
    probs = [weight / sum(weights) for weight in weights]
    if len(set(costs)) < 2:
        return None
    return -sum(prob * math.log(prob) for prob in probs if prob > 0) - math.log(costs.count(min(costs)))


def mean_entropy(costs: torch.Tensor, valid: torch.Tensor, alpha: float) -> float:
    cells = [row[mask].tolist() for row, mask in zip(costs.flatten(0, 1), valid.flatten(0, 1), strict=True)]
    found = [entropy for cell in cells if cell and (entropy := entropy_beyond_ties(cell, alpha)) is not None]
    return sum(found) / len(found)


def random_costs(draw: torch.Generator, scale: float = 1.0, even: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Costs of 150 cells, some of them edits with ties, some cells without a candidate or with one."""
    edits = torch.randint(3, (30, 5, 6), generator=draw).double()
    costs = torch.where(torch.rand(30, 5, 1, generator=draw) < 0.5, edits, 3 * torch.rand(30, 5, 6, generator=draw))
    valid = torch.rand(30, 5, 6, generator=draw) < 0.8
    valid[0, 0], valid[0, 1] = False, torch.arange(6) == 2
    return (torch.ones_like(costs) if even else costs * scale), valid


def test_what_is_seen_is_the_entropy_beyond_ties_of_the_cells_whose_costs_differ() -> None:
    costs, valid = random_costs(rng(1))
    for alpha in (0.3, 2.0, 50.0):
        kept = Temperature(0.4).double()
        kept.log_alpha.fill_(math.log(alpha))
        logs, counts = kept.seen(costs, valid)
        assert logs["alpha"].item() == pytest.approx(alpha)
        assert logs["entropy_gap"].item() == pytest.approx(mean_entropy(costs, valid, alpha) - 0.4, abs=1e-9)
        cells = [row[mask] for row, mask in zip(costs.flatten(0, 1), valid.flatten(0, 1), strict=True)]
        assert counts["entropy_gap"].item() == sum(len(set(cell.tolist())) > 1 for cell in cells) < 149


@given(wanted=st.floats(0.2, 0.9), power=st.integers(-3, 3), seed=st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_the_targets_come_to_the_entropy_whatever_the_scale_of_the_costs(wanted: float, power: int, seed: int) -> None:
    kept, draw = Temperature(wanted), rng(seed)
    for _ in range(400):
        kept.adjust(kept.seen(*random_costs(draw, 10.0**power))[0], torch.ones(()))
    alpha = kept.alpha.item()
    found = [mean_entropy(*random_costs(draw, 10.0**power), alpha) for _ in range(20)]
    assert sum(found) / 20 == pytest.approx(wanted, rel=0.1)


def test_nothing_moves_where_no_costs_differ_and_where_the_update_was_none() -> None:
    kept = Temperature(0.5)
    kept.adjust(kept.seen(*random_costs(rng(), even=True))[0], torch.ones(()))
    kept.adjust(kept.seen(*random_costs(rng()))[0], torch.zeros(()))
    kept.adjust({"loss": torch.ones(())}, torch.ones(()))
    assert kept.alpha.item() == 1.0
    kept.adjust({"entropy_gap": torch.tensor(math.nan)}, torch.zeros(()))
    assert kept.alpha.item() == 1.0
    kept.adjust(kept.seen(*random_costs(rng()))[0], torch.ones(()))
    assert kept.alpha.item() != 1.0


@pytest.mark.parametrize("kind", [KLLoss, ReverseKLLoss, JSLoss])
def test_a_loss_without_an_alpha_is_the_loss_with_the_alpha_of_now(kind: Any) -> None:
    loss, (costs, valid) = kind(None), random_costs(rng(2))
    scores = torch.randn(costs.shape, generator=rng(3), dtype=torch.float64)
    loss.tuned.double().log_alpha.fill_(1.3)
    torch.testing.assert_close(loss(scores, costs, valid), kind(math.exp(1.3))(scores, costs, valid))
    assert replace(loss).tuned is loss.tuned
    assert kind(3.0).tuned is None
    assert kind(3.0).seen(costs, valid) == ({}, {})
    with pytest.raises(SearnnError, match=r"target_entropy is 0\.0, it must be a number above 0"):
        kind(None, target_entropy=0.0)


@pytest.mark.parametrize("softmax", ["candidates", "default-cost"])
def test_searnn_tells_of_the_costs_that_its_loss_is_given(softmax: Any) -> None:
    model, batch = make_model(FREE, seed=2, spread=2.0), make_batch(FREE, (4, 2, 3), room=1)
    parts: dict[str, Any] = {"roll_in": Learned(), "roll_out": Mixed(per="branch"), "tokens": TopTokens(3)}
    loss = KLLoss(None)
    update = Searnn(**parts, cost=EditDistance(), loss=loss, softmax=softmax)(model, batch, rng(5))
    found = search(model, batch, **parts, cost=EditDistance(), rng=spawn(rng(5), 2)[0])
    costs, valid = found.costs, found.valid
    if softmax == "default-cost":  # all five tokens, the others as dear as the cell's dearest
        dearest = costs.masked_fill(~valid, 0).amax(-1, keepdim=True)
        full = dearest.repeat(1, 1, 6).scatter(2, torch.where(valid, found.tokens, 5), costs)[..., :5]
        costs, valid = full, valid.any(-1, keepdim=True).expand_as(full)
    assert update.logs["entropy_gap"].item() == pytest.approx(mean_entropy(costs, valid, 1.0) - 0.5)
    assert set(update.logs) == {"loss", "alpha", "entropy_gap"}
    assert set(update.counts) == {"entropy_gap"}


def searnn(**changes: Any) -> Searnn:
    chosen: dict[str, Any] = {"roll_in": Learned(), "roll_out": Mixed(), "cost": EditDistance(), "loss": KLLoss(None)}
    return Searnn(**{**chosen, **changes})


def alphas(folder: Path) -> list[float]:
    return [line["train_alpha"] for line in lines(folder)]


def test_it_is_recorded_and_goes_on_where_the_run_was_stopped(tmp_path: Path) -> None:
    fit(make_small(), searnn(), make_task(), ADAM, tmp_path / "whole")
    fit(make_small(), searnn(), make_task(), replace(ADAM, steps=25), tmp_path / "parts")
    fit(make_small(), searnn(), make_task(), ADAM, tmp_path / "parts", resume=True)
    assert same(weights(tmp_path / "whole" / "last"), weights(tmp_path / "parts" / "last"))
    whole = {line["step"]: line for line in lines(tmp_path / "whole")}
    assert all(whole[line["step"]] == line for line in lines(tmp_path / "parts") if line["step"] in whole)
    found = alphas(tmp_path / "whole")
    assert found == sorted(found)
    assert 1 < found[0] < found[-1]
    assert weights(tmp_path / "whole" / "last")["adjusted.0.log_alpha"].exp().item() > found[-1]


@pytest.mark.parametrize(
    "algorithm",
    [
        searnn,
        lambda: WarmUp(Mle(), searnn(), 2),
        lambda: Searn(cost=EditDistance(), loss=KLLoss(None), rounds=2, round_steps=2),
    ],
    ids=["searnn", "after a warm-up", "searn"],
)
def test_it_moves_alike_in_shards(tmp_path: Path, algorithm: Any) -> None:
    settings = replace(ADAM, precision="64-true", batch_size=7, steps=6, eval_every=3)
    for name, parts in (("whole", 1), ("parts", 3)):
        fit(make_small(dropout=0.0), algorithm(), uneven_task(), replace(settings, accumulate=parts), tmp_path / name)
    whole, parts = (weights(tmp_path / name / "last")["adjusted.0.log_alpha"].item() for name in ("whole", "parts"))
    assert whole != 0
    assert whole == pytest.approx(parts, rel=1e-5)


def test_pages_have_the_alpha_that_the_model_was_trained_with(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert main([*copy_flags(folder), "--loss", "kl", "--alpha", "auto", "--target-entropy", "0.2"]) == 0
    run = load(folder)
    best = run.metrics.best
    assert best is not None
    assert choices_of(run)[1].alpha == best["train_alpha"] != 1.0
    assert not {"alpha-small", "alpha-large"} & {finding.kind for finding in examine(read_run(folder))}
