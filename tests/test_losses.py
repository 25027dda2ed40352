"""The losses against plain Python, finite differences, torch's cross-entropy and the paper's identities."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from members import members
from scipy.stats import chisquare
from torch.nn.functional import cross_entropy, one_hot

import searnn.losses
from searnn.interfaces import Loss, NeedsRandomness
from searnn.losses import (
    ConsistentLoss,
    CostAugmentedLogLoss,
    HingeLoss,
    JSLoss,
    KLLoss,
    LogLoss,
    ReverseKLLoss,
    SquaredLoss,
)
from searnn.losses.masked import lowest_cost, scaled_costs
from searnn.types import SearnnError

ALL = [*members("loss", alpha=1.7).values(), CostAugmentedLogLoss(alpha=0.4), HingeLoss()]
TARGETED = [LogLoss, CostAugmentedLogLoss, HingeLoss]
SCALED = [KLLoss, CostAugmentedLogLoss, HingeLoss, ReverseKLLoss, JSLoss, SquaredLoss]


def call(loss: Any, scores: torch.Tensor, costs: torch.Tensor, valid: torch.Tensor, seed: int = 0) -> torch.Tensor:
    extra = {"rng": torch.Generator().manual_seed(seed)} if isinstance(loss, NeedsRandomness) and loss.random else {}
    return loss(scores, costs, valid, **extra)


def softmax(values: list[float]) -> list[float]:
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def naive(loss: Any, scores: list[float], costs: list[float]) -> float:
    """One cell, from the formulas, over its valid candidates."""
    if not scores:
        return 0.0
    best = costs.index(min(costs))
    alpha = getattr(loss, "alpha", 1.0)
    model = softmax(scores)
    target = softmax([-alpha * cost for cost in costs])
    middle = [(p + q) / 2 for p, q in zip(model, target, strict=True)]
    pairs = list(zip(scores, costs, strict=True))
    mean = sum(scores) / len(scores)

    def divergence(first: list[float], second: list[float]) -> float:
        return sum(p * math.log(p / q) for p, q in zip(first, second, strict=True))

    values = {
        "ll": lambda: -math.log(model[best]),
        "kl": lambda: -sum(q * math.log(p) for p, q in zip(model, target, strict=True)),
        "llcas": lambda: -math.log(softmax([score + alpha * cost for score, cost in pairs])[best]),
        "hinge": lambda: max(score + alpha * cost for score, cost in pairs) - scores[best],
        "consistent": lambda: sum(cost * math.log(1 + math.exp(score - mean)) for score, cost in pairs),
        "reverse-kl": lambda: divergence(model, target),
        "js": lambda: (divergence(model, middle) + divergence(target, middle)) / 2,
        "l2": lambda: sum((score + alpha * (cost - min(costs))) ** 2 for score, cost in pairs) / 2,
    }
    return values[loss.name]()


def example(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scores, costs without ties, and a mask under which one cell is empty and one has a single candidate."""
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 4, 5, generator=rng, dtype=torch.float64)
    costs = torch.rand(2, 4, 5, generator=rng, dtype=torch.float64) + 0.3
    valid = torch.rand(2, 4, 5, generator=rng) < 0.7
    valid[0, 1] = False
    valid[1, 2] = torch.arange(5) == 3
    valid[0, 0] = True
    return scores, costs, valid


def test_every_loss_is_tested_and_has_its_own_name() -> None:
    assert {type(loss) for loss in ALL} == {getattr(searnn.losses, name) for name in searnn.losses.__all__}
    assert all(isinstance(loss, Loss) for loss in ALL)


def test_hand_worked_values() -> None:
    # Two candidates with P_M = (2/3, 1/3) and costs (1, 0); the third is not valid, cheapest and best scored.
    scores = torch.tensor([[[math.log(2), 0.0, math.log(5)]]], dtype=torch.float64)
    costs = torch.tensor([[[1.0, 0.0, -3.0]]], dtype=torch.float64)
    valid = torch.tensor([[[True, True, False]]])
    log2, log3 = math.log(2), math.log(3)
    # alpha = log 3 gives P_C = (1/4, 3/4) and M = (11/24, 13/24)
    js = (2 * math.log(16 / 11) + math.log(8 / 13)) / 3 + (math.log(6 / 11) + 3 * math.log(18 / 13)) / 4
    expected = {
        LogLoss(): log3,
        KLLoss(log3): log3 - log2 / 4,
        CostAugmentedLogLoss(): math.log(1 + 2 * math.e),
        HingeLoss(): log2 + 1,
        HingeLoss(2.0): log2 + 2,
        ConsistentLoss(): math.log(1 + math.sqrt(2)),
        ReverseKLLoss(log3): (2 * math.log(8 / 3) + math.log(4 / 9)) / 3,
        JSLoss(log3): js / 2,
        SquaredLoss(): (log2 + 1) ** 2 / 2,
    }
    assert {type(loss) for loss in expected} == {type(loss) for loss in ALL}
    for loss, value in expected.items():
        assert call(loss, scores, costs, valid).item() == pytest.approx(value, rel=1e-12), loss


@pytest.mark.parametrize("loss", ALL, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_values_equal_the_formulas_worked_in_plain_python(loss: Any, seed: int) -> None:
    scores, costs, valid = example(seed)
    losses = call(loss, scores, costs, valid)
    assert losses.shape == (2, 4)
    for row in range(2):
        for cell in range(4):
            kept = valid[row, cell]
            expected = naive(loss, scores[row, cell][kept].tolist(), costs[row, cell][kept].tolist())
            assert losses[row, cell].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_float32_is_close_to_float64(loss: Any) -> None:
    scores, costs, valid = example()
    losses = call(loss, scores.float(), costs.float(), valid)
    assert losses.dtype == torch.float32
    torch.testing.assert_close(losses.double(), call(loss, scores, costs, valid), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_gradients_equal_finite_differences(loss: Any) -> None:
    scores, costs, valid = example()
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda values: call(loss, values, costs, valid), (scores,))


@pytest.mark.parametrize("loss", ALL, ids=str)
@pytest.mark.parametrize("rubbish", [math.nan, math.inf, -math.inf])
def test_what_is_not_valid_changes_nothing_and_an_empty_cell_is_exactly_zero(loss: Any, rubbish: float) -> None:
    scores, costs, valid = example()
    clean, dirty = (scores.clone().requires_grad_() for _ in range(2))
    expected = call(loss, clean, costs, valid)
    expected.sum().backward()
    with torch.no_grad():
        dirty[~valid] = rubbish
    losses = call(loss, dirty, costs.masked_fill(~valid, rubbish), valid)
    losses.sum().backward()
    assert torch.equal(losses, expected)
    assert torch.equal(dirty.grad, clean.grad)
    assert losses[0, 1] == 0
    assert (dirty.grad[~valid] == 0).all()


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_a_batch_of_empty_cells_is_exactly_zero(loss: Any) -> None:
    scores = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    losses = call(loss, scores, torch.ones(2, 3, 4), torch.zeros(2, 3, 4, dtype=torch.bool))
    losses.sum().backward()
    assert (losses == 0).all()
    assert (scores.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("kind", "alpha"),
    [(SquaredLoss, 1e15)]
    + [(kind, alpha) for kind in SCALED if kind is not SquaredLoss for alpha in (1e4, 1e30, 1e300)],
)
def test_huge_alpha_stays_finite(kind: Any, alpha: float, dtype: torch.dtype) -> None:
    scores, costs, valid = (part.to(dtype) if part.is_floating_point() else part for part in example())
    scores.requires_grad_()
    losses = call(kind(alpha), scores, 100 * costs, valid)
    losses.sum().backward()
    assert losses.isfinite().all()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("alpha", [1.0, 1e300])
def test_what_is_not_valid_costs_nothing(alpha: float) -> None:
    """The losses share these, and say so: 0 where there is no candidate, whatever stands there and in other cells."""
    _, costs, valid = example()
    costs[~valid] = math.nan
    lowest, scaled = lowest_cost(costs, valid), scaled_costs(costs, valid, alpha)
    for row, cell in itertools.product(range(2), range(4)):
        kept = costs[row, cell][valid[row, cell]].tolist()
        assert lowest[row, cell] == min(kept, default=0.0)
        assert scaled[row, cell][valid[row, cell]].tolist() == pytest.approx([alpha * (c - min(kept)) for c in kept])
    assert (scaled[~valid] == 0).all()


def test_a_hinge_of_costs_below_zero_stays_finite() -> None:
    scores, costs, valid = example()
    assert call(HingeLoss(1e300), scores, -1e10 * costs, valid).isfinite().all()


@pytest.mark.parametrize("alpha", [1e4, 1e300])
def test_huge_alpha_has_the_right_limits(alpha: float) -> None:
    scores, costs, valid = example()
    costs = (costs + 5).float()
    scores = scores.float()
    torch.testing.assert_close(KLLoss(alpha)(scores, costs, valid), call(LogLoss(), scores, costs, valid))
    # The dearest candidate takes all of the augmented softmax.
    (grad,) = torch.autograd.grad(
        call(CostAugmentedLogLoss(alpha), scores.requires_grad_(), costs, valid).sum(), scores
    )
    for row, cell in [(0, 0), (0, 2), (1, 0), (1, 1)]:
        kept = costs[row, cell].masked_fill(~valid[row, cell], math.nan).tolist()
        known = [index for index in range(5) if valid[row, cell, index]]
        expected = [0.0] * 5
        expected[max(known, key=kept.__getitem__)] += 1
        expected[min(known, key=kept.__getitem__)] -= 1
        assert grad[row, cell].tolist() == expected


def test_scores_survive_large_equal_costs() -> None:
    # The costs differ by nothing, so the augmented losses must still see the scores.
    scores = torch.tensor([[[0.25, -0.5]]])
    costs = torch.full((1, 1, 2), 1e6)
    valid = torch.ones(1, 1, 2, dtype=torch.bool)
    for loss in (CostAugmentedLogLoss(1e6, ties="model"), LogLoss(ties="model")):
        assert loss(scores, costs, valid).item() == pytest.approx(math.log(1 + math.exp(-0.75)), rel=1e-6)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_ll_under_reference_hamming_costs_is_cross_entropy_in_value_and_gradient(shift: float) -> None:
    rng = torch.Generator().manual_seed(1)
    scores = torch.randn(3, 4, 7, generator=rng, dtype=torch.float64)
    truth = torch.randint(7, (3, 4), generator=rng)
    costs = shift + 1.0 - one_hot(truth, 7).double()
    order = torch.rand(3, 4, 7, generator=rng).argsort(-1)  # all tokens sampled, in any order: sLL is LL
    ours, theirs = (scores.clone().requires_grad_() for _ in range(2))
    losses = call(LogLoss(), ours.gather(-1, order), costs.gather(-1, order), torch.ones_like(order, dtype=torch.bool))
    expected = cross_entropy(theirs.flatten(0, 1), truth.flatten(), reduction="none").view(3, 4)
    losses.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize(("alpha", "cost"), [(1.0, 1.0), (3.0, 1.0), (30.0, 0.1)])
def test_kl_under_reference_hamming_costs_is_label_smoothing(alpha: float, cost: float) -> None:
    rng = torch.Generator().manual_seed(2)
    size = 6
    scores = torch.randn(3, 4, size, generator=rng, dtype=torch.float64)
    truth = torch.randint(size, (3, 4), generator=rng)
    costs = cost * (1.0 - one_hot(truth, size).double())
    # P_C of a wrong token is exp(-alpha c) / (1 + (V - 1) exp(-alpha c)), and label smoothing gives it eps / V.
    wrong = math.exp(-alpha * cost)
    eps = size * wrong / (1 + (size - 1) * wrong)
    ours, theirs = (scores.clone().requires_grad_() for _ in range(2))
    losses = KLLoss(alpha)(ours, costs, torch.ones(3, 4, size, dtype=torch.bool))
    expected = cross_entropy(theirs.flatten(0, 1), truth.flatten(), reduction="none", label_smoothing=eps).view(3, 4)
    losses.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


def targets(loss: Any, scores: torch.Tensor, costs: torch.Tensor, valid: torch.Tensor, seed: int) -> list[int]:
    """a* of each cell, seen from outside: the one candidate whose score the loss wants higher."""
    scores = scores.clone().requires_grad_()
    (grad,) = torch.autograd.grad(call(loss, scores, costs, valid, seed).sum(), scores)
    assert ((grad < 0).sum(-1) == 1).all()
    return grad.argmin(-1).flatten().tolist()


def tied(cells: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Three of the candidates are the cheapest; two that are not valid would be, and the model's favourite is dear."""
    scores = torch.tensor([0.1, 0.7, 5.0, 9.0, 0.3, 9.0]).expand(1, cells, 6)
    costs = torch.tensor([0.25, 0.25, 1.0, 0.0, 0.25, 0.25]).expand(1, cells, 6)
    valid = torch.tensor([True, True, True, False, True, False]).expand(1, cells, 6)
    return scores, costs, valid


@pytest.mark.parametrize("kind", TARGETED)
def test_random_ties_are_uniform(kind: Callable[..., Any]) -> None:
    drawn = targets(kind(ties="random"), *tied(6000), seed=3)
    counts = [drawn.count(candidate) for candidate in (0, 1, 4)]
    assert sum(counts) == 6000
    assert chisquare(counts).pvalue > 1e-3
    assert drawn == targets(kind(ties="random"), *tied(6000), seed=3)
    assert drawn != targets(kind(ties="random"), *tied(6000), seed=4)


@pytest.mark.parametrize("kind", TARGETED)
def test_model_ties_take_the_highest_score_among_the_cheapest(kind: Callable[..., Any]) -> None:
    scores, costs, valid = tied(3)
    assert targets(kind(ties="model"), scores, costs, valid, seed=0) == [1, 1, 1]
    nearly = costs + torch.tensor([0.0, 1e-6, 0.0, 0.0, 0.0, 0.0])  # only exact ties are ties
    assert targets(kind(ties="model"), scores, nearly, valid, seed=0) == [4, 4, 4]


def test_a_cheapest_candidate_that_the_model_rules_out_is_still_the_target() -> None:
    scores = torch.tensor([[[1.0, -math.inf, 0.0]]])
    costs = torch.tensor([[[1.0, 0.0, 1.0]]])
    assert LogLoss(ties="model")(scores, costs, torch.ones(1, 1, 3, dtype=torch.bool)).item() == math.inf


@pytest.mark.parametrize("kind", TARGETED)
def test_random_says_whether_a_generator_is_needed(kind: Any) -> None:
    scores, costs, valid = example()
    assert kind(ties="random").random
    assert not kind().random
    kind()(scores, costs, valid)
    with pytest.raises(SearnnError, match="rng"):
        kind(ties="random")(scores, costs, valid)


@pytest.mark.parametrize("alpha", [-0.1, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", SCALED)
def test_a_bad_alpha_is_refused(kind: Any, alpha: float) -> None:
    with pytest.raises(SearnnError, match="alpha is"):
        kind(alpha=alpha)


@pytest.mark.usefixtures("as_users_call")
def test_an_unknown_way_to_break_ties_is_refused() -> None:
    with pytest.raises(SearnnError, match="ties is 'first', it must be random or model"):
        LogLoss(ties="first")


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_nothing_is_read_back_from_the_device(loss: Any) -> None:
    # The meta device has no values: whatever would wait for one fails there.
    floats = torch.empty(2, 3, 4, device="meta")
    losses = call(loss, floats, floats, torch.empty(2, 3, 4, dtype=torch.bool, device="meta"))
    assert losses.shape == (2, 3)


def test_alpha_zero_ignores_the_costs() -> None:
    scores, costs, valid = example()
    close = torch.testing.assert_close
    close(CostAugmentedLogLoss(alpha=0.0)(scores, costs, valid), LogLoss()(scores, costs, valid))
    logs = scores.masked_fill(~valid, -math.inf).log_softmax(-1)
    uniform = -torch.where(valid, logs, 0.0).sum(-1) / valid.sum(-1).clamp(min=1)
    close(KLLoss(0.0)(scores, costs, valid), uniform)
