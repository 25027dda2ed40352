"""The product with a large vocabulary and its arg-max in one kernel, against the product and torch's maximum."""

import pytest
import torch
from cases import rng
from kernel_cases import best_tokens

from searnn.fast.host import interpreted

pytest.importorskip("triton")

from searnn.fast.gpu import vocabulary
from searnn.fast.gpu.vocabulary import Tiles

pytestmark = pytest.mark.skipif(not interpreted(), reason="on the CPU kernels need TRITON_INTERPRET=1")


def draw(rows, width, size, seed=0):
    made = rng(seed)
    return [torch.randn(shape, generator=made) for shape in ((rows, width), (size, width), (size,))]


def plain_scores(hidden, weight, bias, forbidden):
    scores = (hidden.double() @ weight.double().t() + bias.double()).float()
    scores[:, [token for token in forbidden if token < len(weight)]] = -torch.inf
    return scores


@pytest.mark.parametrize("forbidden", [(), (0, 1), (299, 311)], ids=["all", "first", "last-and-beyond"])
@pytest.mark.parametrize(
    ("rows", "width", "size", "tiles"),
    [
        (70, 12, 300, None),
        (70, 100, 300, Tiles(32, 64, 128, 4, 2)),  # all units at once
        (70, 100, 300, Tiles(32, 64, 32, 4, 2)),  # in chunks, the last one not full
        (1, 16, 300, Tiles(16, 16, 16, 4, 2, resident=2)),  # a row whose tokens are spread over all programs
    ],
    ids=["default", "whole", "chunks", "one-row"],
)
def test_the_best_token_of_every_row(rows, width, size, tiles, forbidden):
    hidden, weight, bias = draw(rows, width, size)
    bias[list(forbidden[:1])] += 100  # it would be chosen, were it not forbidden
    found = best_tokens(hidden, weight, bias, forbidden, "float32", tiles)
    assert torch.equal(found, plain_scores(hidden, weight, bias, forbidden).max(1).indices)


@pytest.mark.parametrize("share", [vocabulary.programs(torch.device("cpu")), 1, 50])
def test_it_does_not_matter_how_the_tiles_are_shared_out(monkeypatch, share):
    hidden, weight, bias = draw(40, 8, 100)
    hidden[::2] *= 0.1
    bias -= 6  # the best score lies below zero for some rows and above for others
    monkeypatch.setattr(vocabulary, "programs", lambda _: share)
    found = best_tokens(hidden, weight, bias, (), "float32", Tiles(16, 16, 16, 4, 2))
    best = plain_scores(hidden, weight, bias, ()).max(1)
    assert (best.values < 0).any()
    assert (best.values > 0).any()
    assert torch.equal(found, best.indices)


@pytest.mark.parametrize(("value", "first"), [(-3.0, 3), (2.5, 3), (0.0, 1)], ids=["below-zero", "above-zero", "zero"])
def test_of_equal_scores_the_first_is_taken(value, first):
    bias = torch.full((50,), value)
    if value:
        bias[[3, 18, 49]] += 1
    found = best_tokens(torch.zeros(4, 8), torch.zeros(50, 8), bias, (0,), "float32", Tiles(16, 16, 16, 4, 2))
    assert found.tolist() == [first] * 4


def test_bf16_rounds_the_operands_and_nothing_else():
    hidden, weight, bias = draw(200, 40, 300)
    found = best_tokens(hidden, weight, bias, (), "bf16")
    rounded = plain_scores(hidden.bfloat16().float(), weight.bfloat16().float(), bias, ())
    assert torch.equal(found, rounded.max(1).indices)
    exact = plain_scores(hidden, weight, bias, ())
    assert not torch.equal(found, exact.max(1).indices)  # else the test above says nothing
    gap = exact.max(1).values - exact.gather(1, found.unsqueeze(1)).squeeze(1)
    assert gap.max() < 0.1


def test_only_the_first_rows_are_looked_at():
    hidden, weight, bias = draw(30, 8, 60)
    table = vocabulary.readout(weight, bias, (), "float32", Tiles(16, 16, 16, 4, 2))
    keys = torch.full((30,), vocabulary.NOTHING)
    vocabulary.find_keys(hidden, torch.tensor([4, 0, 15], dtype=torch.int32), table, keys)
    assert (keys[:19] != vocabulary.NOTHING).all()
    assert (keys[19:] == vocabulary.NOTHING).all()


def test_the_model_keeps_its_weights():
    hidden, weight, bias = draw(3, 16, 64)  # a whole number of tiles: nothing needs padding
    before = weight.clone(), bias.clone()
    best_tokens(hidden, weight, bias, (1, 2), "float32", Tiles(16, 16, 16, 4, 2))
    assert torch.equal(weight, before[0])
    assert torch.equal(bias, before[1])
