"""What the softmax of a loss is over: each choice against plain Python, cell by cell, in value and in gradient."""

import math
from dataclasses import replace

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model, rng

from searnn import Searnn, Vocabulary, search
from searnn.algorithms import Aggrevate, Aggrevated, Lols, Searn
from searnn.algorithms.aggrevated import ExpectedCost
from searnn.algorithms.common.softmax import losses_of
from searnn.costs import EditDistance
from searnn.losses import ConsistentLoss, HingeLoss, KLLoss, LogLoss
from searnn.policies import Learned, Mixed, Reference, Sampled
from searnn.rng import spawn
from searnn.samplers import AllTokens, TopTokens, UniformCells, UniformTokens, union

CHOICES = [("candidates", None), ("vocabulary", None), ("default-cost", None), ("default-cost", 0.4)]
WIDE = Vocabulary(size=12, pad=5, bos=12, eos=0)  # PAD is scored and never chosen
vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE, WIDE], ids=["known", "free", "inside", "wide"])
choices = pytest.mark.parametrize(("softmax", "default"), CHOICES)


def cell_loss(loss, scores, costs, choosable, softmax, default):
    """One cell in plain Python: `scores` of all tokens as scalars with gradient, `costs` of the candidates by token."""
    denominator = list(costs) if softmax == "candidates" else choosable
    total = torch.logsumexp(torch.stack([scores[token] for token in denominator]), 0)
    if softmax == "default-cost":
        rest = max(costs.values()) if default is None else default
        costs = {token: costs.get(token, rest) for token in choosable}
    if isinstance(loss, LogLoss):
        lowest = min(costs.values())
        best = max((token for token in costs if costs[token] == lowest), key=lambda token: scores[token].item())
        return total - scores[best]
    if isinstance(loss, KLLoss):
        weights = {token: math.exp(-loss.alpha * cost) for token, cost in costs.items()}
        return -sum(weight / sum(weights.values()) * (scores[token] - total) for token, weight in weights.items())
    assert isinstance(loss, ExpectedCost)
    lowest = min(costs.values())
    return sum((scores[token] - total).exp() * (cost - lowest) for token, cost in costs.items())


@vocabs
@choices
@pytest.mark.parametrize("loss", [LogLoss(), KLLoss(3.0)], ids=["ll", "kl"])
@pytest.mark.parametrize("cells", [None, UniformCells(2)], ids=["all", "some"])
def test_losses_and_gradients_are_those_of_a_loop_over_cells(vocab, softmax, default, loss, cells):
    model, batch = make_model(vocab, seed=2, spread=2.0), make_batch(vocab, (4, 2, 3), room=1)
    tokens = union(UniformTokens(2), TopTokens(2))  # with candidates that come twice, which are masked
    parts = {"roll_in": Learned(), "roll_out": Mixed(per="branch"), "cost": EditDistance(), "tokens": tokens}
    parts |= {} if cells is None else {"cells": cells}
    algorithm = Searnn(**parts, loss=loss, softmax=softmax, default_cost=default, normalisation="sum")
    update = algorithm(model, batch, rng(5))
    update.loss.backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    found = search(model, batch, **parts, rng=spawn(rng(5), 2)[0])
    assert (~found.valid).any(), "nothing is masked"
    scores, _ = model.trace(model.encode(batch.inputs), found.prefix)
    expected = torch.zeros((), dtype=scores.dtype)
    for example in range(len(batch.targets)):
        for place, cell in enumerate(found.cells[example].tolist()):
            valid = found.valid[example, place]
            tried, paid = found.tokens[example, place][valid].tolist(), found.costs[example, place][valid].tolist()
            costs = dict(zip(tried, paid, strict=True))
            if costs:
                expected = expected + cell_loss(
                    loss, scores[example, cell], costs, list(vocab.choosable), softmax, default
                )
    expected.backward()
    torch.testing.assert_close(update.loss, expected.to(update.loss.dtype))
    for ours, parameter in zip(gradients, model.parameters(), strict=True):
        torch.testing.assert_close(ours, parameter.grad, rtol=1e-4, atol=1e-5)


def of(vocab, softmax, default=None, loss=None, **changes):
    model, batch = make_model(vocab, seed=2, spread=2.0), make_batch(vocab, (4, 2, 3), room=1)
    parts = {"roll_in": Reference(), "roll_out": Learned(), "cost": EditDistance(), "tokens": TopTokens(2), **changes}
    loss = loss or KLLoss(3.0)
    return Searnn(**parts, loss=loss, softmax=softmax, default_cost=default)(model, batch, rng(1)).loss.detach()


@vocabs
def test_all_choices_differ_and_where_all_tokens_are_candidates_none_does(vocab):
    for loss in (KLLoss(3.0), ConsistentLoss(), HingeLoss()):
        found = [of(vocab, softmax, default, loss).item() for softmax, default in CHOICES]
        # The hinge loss may find its worst rival among the candidates, whatever the others cost.
        assert len(set(found)) >= len(CHOICES) - isinstance(loss, HingeLoss), loss
        plain = of(vocab, "candidates", loss=loss, tokens=AllTokens())
        for softmax, default in CHOICES[1:]:
            torch.testing.assert_close(of(vocab, softmax, default, loss, tokens=AllTokens()), plain)
    assert len({of(vocab, softmax, loss=LogLoss()).item() for softmax in ("candidates", "vocabulary")}) == 2


def test_the_gradient_of_the_tokens_that_are_no_candidates():
    """They are left alone, pushed down by their probability, or drawn to what their default cost says."""
    model, batch = make_model(WIDE, seed=2, spread=2.0), make_batch(WIDE, (4, 2, 3), room=1)
    parts = {"roll_in": Reference(), "roll_out": Learned(), "cost": EditDistance(), "tokens": TopTokens(3)}
    found = search(model, batch, **parts, rng=rng())
    with torch.no_grad():
        scores = model.trace(model.encode(batch.inputs), found.prefix)[0].double()
    scores = scores.gather(1, found.cells.unsqueeze(-1).expand(-1, -1, WIDE.size)).requires_grad_()
    counted = found.valid.any(-1)
    others = counted.unsqueeze(-1) & (torch.tensor(WIDE.choosable).unsqueeze(1) == torch.arange(12)).any(0)
    others = others & ~(found.tokens.unsqueeze(-1) == torch.arange(12)).any(2)
    never = torch.ones(12, dtype=torch.bool).index_fill(0, torch.tensor(WIDE.choosable), False)
    probs = scores.detach().masked_fill(never, -math.inf).softmax(-1)
    gradients = {}
    for softmax, default in CHOICES:
        losses = losses_of(KLLoss(2.0), scores, found, WIDE, rng(), softmax=softmax, default_cost=default)
        (gradients[softmax, default],) = torch.autograd.grad(losses.sum(), scores)
        assert torch.equal(gradients[softmax, default][..., never], torch.zeros_like(scores[..., never]))
        assert not gradients[softmax, default][~counted].any()
    assert not gradients["candidates", None][others].any()
    torch.testing.assert_close(gradients["vocabulary", None][others], probs[others])
    costs = torch.full_like(scores, 0.4, requires_grad=False)
    costs = costs.scatter(2, found.tokens, found.costs.double()).masked_fill(never, math.inf)
    target = (-2.0 * costs).softmax(-1)
    torch.testing.assert_close(gradients["default-cost", 0.4][others], (probs - target)[others])


@choices
@pytest.mark.parametrize("kind", ["searn", "lols", "aggrevate", "aggrevated"])
def test_algorithms_with_cell_losses_hand_it_on(kind, softmax, default):
    """The first update of each is SEARNN's with its policies, and so is its softmax."""
    chosen = {"softmax": softmax, "default_cost": default, "tokens": TopTokens(2)}
    cost, loss = EditDistance(), KLLoss(3.0)
    algorithm, roll_in, roll_out = {
        "searn": lambda: (Searn(cost=cost, loss=loss, **chosen), Reference(), Reference()),
        "lols": lambda: (Lols(cost, loss, **chosen), Learned(), Mixed(per="branch")),
        "aggrevate": lambda: (Aggrevate(cost=cost, loss=loss, **chosen), Reference(), Reference()),
        "aggrevated": lambda: (Aggrevated(cost, **chosen), Sampled(), Reference()),
    }[kind]()
    model, batch = make_model(FREE, seed=2, spread=2.0), make_batch(FREE, (4, 2, 3), room=1)
    same = Searnn(roll_in, roll_out, cost, ExpectedCost() if kind == "aggrevated" else loss, **chosen)
    assert torch.equal(algorithm(model, batch, rng(3)).loss, same(model, batch, rng(3)).loss)
    if softmax != "candidates":
        plain = replace(same, softmax="candidates", default_cost=None)
        assert plain(model, batch, rng(3)).loss != same(model, batch, rng(3)).loss
