"""The compiled passes one by one: against the library's layers, and the choice by 8-bit scores against full ones."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from searnn.models.attention import AdditiveAttention
from searnn.models.layers import GruLayer

numba = pytest.importorskip("numba")
cpu_rows = pytest.importorskip("searnn.fast.cpu.rows")
cpu_choice = pytest.importorskip("searnn.fast.cpu.choice")
cpu_vocabulary = pytest.importorskip("searnn.fast.cpu.vocabulary")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def slots_of(count):
    slots = np.zeros((cpu_rows.FIELDS, count), np.int64)
    slots[cpu_rows.SOURCE] = slots[cpu_rows.TOKEN] = np.arange(count)
    return slots


@numba.njit(**cpu_rows.OPTIONS)
def write_powers(exponents, results):
    for place in range(len(exponents)):
        results[place] = cpu_rows.exp2(exponents[place])


def test_powers_of_two():
    exponents = torch.cat([torch.linspace(-60, 60, 100_001), torch.randn(10_000, generator=generator())])
    found = np.empty(len(exponents), np.float32)
    write_powers(exponents.numpy(), found)
    torch.testing.assert_close(torch.from_numpy(found).double(), exponents.double().exp2(), rtol=3e-7, atol=0)
    far = torch.tensor([-1e30, -61, 61, 1e30])
    write_powers(far.numpy(), found)
    assert found[:4] == pytest.approx([2.0**-60, 2.0**-60, 2.0**60, 2.0**60], rel=3e-7)  # cut there


@pytest.mark.parametrize("width", [1, 7, 16, 100, 128])
@pytest.mark.parametrize("starting", [False, True])
def test_a_step_is_that_of_the_library_layer(width, starting):
    count, rng = 300, generator(width)
    layer = GruLayer(width, width).requires_grad_(False)
    hidden = torch.rand(count, width, generator=rng) * 2 - 1
    gates = torch.randn(count, 3 * width, generator=rng) * torch.logspace(-2, 1.7, count).unsqueeze(1)
    product, bias = functional.linear(hidden, layer.weight_hh_l0), layer.bias_hh_l0[2 * width :].clone()
    both, new = gates[:, : 2 * width].contiguous(), gates[:, 2 * width :].contiguous()
    both64, new64, product64 = both.double(), new.double(), product.double()
    reset, update = (both64 + product64[:, : 2 * width]).sigmoid().chunk(2, 1)
    fresh = (new64 + reset * (product64[:, 2 * width :] + bias)).tanh()
    expected = fresh + update * (hidden.double() - fresh)
    found = torch.full_like(hidden, torch.nan) if starting else hidden.clone()
    first = hidden if starting else hidden[:0]
    seen = np.empty((0, 0, 2 * width), np.float32), np.empty((0, 0, width), np.float32)
    slots = slots_of(count)
    cpu_rows.advance_rows(
        found.numpy(), first.numpy(), product.numpy(), bias.numpy(), both.numpy(), new.numpy(),
        slots[cpu_rows.TOKEN], *seen, 5, slots, 0, count,
    )  # fmt: skip
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=3e-7)
    cell = torch.nn.GRUCell(width, width)
    cell.load_state_dict({name: getattr(layer, f"{name}_l0") for name, _ in cell.named_parameters()})
    inputs = torch.randn(count, width, generator=rng)
    both, new = layer.enter(inputs)
    found = hidden.clone()
    cpu_rows.advance_rows(
        found.numpy(), hidden[:0].numpy(), product.numpy(), bias.numpy(), both.numpy(), new.numpy(),
        slots[cpu_rows.TOKEN], *seen, 5, slots, 0, count,
    )  # fmt: skip
    torch.testing.assert_close(found, cell(inputs, hidden).detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [0.1, 1.0, 8.0])
def test_attention_is_that_of_the_library_layers(size):
    examples, share, places, width, values = 3, 20, 19, 32, 48
    rng = generator()
    attend = AdditiveAttention(width, 5, width).double().requires_grad_(False)
    queries = torch.randn(examples, share, width, generator=rng).double()
    features = torch.randn(examples, places, values, generator=rng)
    keys = size * torch.randn(examples, places, width, generator=rng).double()
    mask = torch.arange(places) < torch.tensor([[19], [7], [1]])
    expected = attend(queries, keys, features.double(), mask)
    asked = torch.zeros(examples * share, width + values)
    asked[:, :width] = functional.linear(queries, attend.query.weight).flatten(0, 1)
    slots = slots_of(examples * share)
    slots[cpu_rows.EXAMPLE] = np.arange(examples).repeat(share)
    cpu_rows.attend_rows(
        asked.numpy(), width, attend.query.bias.float().numpy(), attend.score.weight.float().flatten().numpy(),
        (2 * keys).exp().float().numpy(), features.numpy(), mask.numpy(), slots, examples * share,
    )  # fmt: skip
    torch.testing.assert_close(asked[:, width:].double(), expected.flatten(0, 1), rtol=0, atol=5e-6)


def choose(states, weight, bias, *, screened):
    """The tokens chosen for each state by 8-bit scores or full ones."""
    short = cpu_choice.shorten(weight, bias.numpy()) if screened else None
    chooser = cpu_choice.Chooser(cpu_choice.Scorer(None, weight, bias.numpy(), short), len(states))
    buffer = cpu_choice.Buffer(*states.shape)
    buffer.all.copy_(states)
    slots = slots_of(len(states))
    chooser(buffer, len(states), slots)
    return torch.from_numpy(slots[cpu_rows.TOKEN])


def scores_of(states, weight, bias):
    return states.double() @ weight.double().t() + bias.double()


@pytest.mark.parametrize("screened", [False, True])
@pytest.mark.parametrize("kind", ["even", "peaked", "sparse", "large", "zero"])
@pytest.mark.parametrize("tokens", [1, 100, 5000])
def test_the_best_of_many_tokens(kind, tokens, screened):
    rng = generator(tokens)
    weight, bias = torch.randn(tokens, 40, generator=rng), torch.randn(tokens, generator=rng)
    states = torch.randn(300, 40, generator=rng)
    if kind == "peaked":
        weight *= torch.rand(tokens, 1, generator=rng) ** 8 * 50
    elif kind == "sparse":
        states *= torch.rand(300, 40, generator=rng) < 0.05
    elif kind == "large":
        weight, states = weight * 1e6, states * 1e-9
    elif kind == "zero":
        states[::2] = 0
    bias[::7] = -torch.inf
    bias[0] = 0
    found, scores = choose(states, weight, bias, screened=screened), scores_of(states, weight, bias)
    highest = scores.max(1).values
    chosen = scores.gather(1, found.unsqueeze(1)).squeeze(1)
    assert (highest - chosen <= 1e-6 * (1 + states.norm(dim=1) * weight.norm(dim=1).max())).all()
    assert (found == scores.argmax(1)).float().mean() > 0.98


@pytest.mark.parametrize("screened", [False, True])
def test_the_first_of_equal_tokens_wins(monkeypatch, screened):
    monkeypatch.setattr(cpu_choice, "SCORES", 1)  # scores are looked at in many parts
    weight, bias = torch.randn(768, 16, generator=generator()), torch.zeros(768)
    weight = torch.cat([weight, weight, weight])
    states = torch.randn(50, 16, generator=generator(1))
    found = choose(states, weight, bias.repeat(3), screened=screened)
    assert torch.equal(found, scores_of(states, weight[:768], bias).argmax(1))


def test_where_too_many_tokens_may_be_the_best_all_are_scored():
    rng = generator()
    weight = torch.randn(1, 64, generator=rng) + 1e-4 * torch.randn(3000, 64, generator=rng)
    states, bias = torch.randn(20, 64, generator=rng), torch.zeros(3000)
    assert torch.equal(choose(states, weight, bias, screened=True), scores_of(states, weight, bias).argmax(1))


def settled(states, weight, bias):
    """The tokens chosen for each state where every token is scored in full."""
    slots, count, most = slots_of(len(states)), len(states), cpu_vocabulary.MOST_FOUND
    none, tokens = np.zeros(count, np.int64), np.zeros((count, most), np.int32)
    noted = np.zeros(count, np.float32), tokens, tokens.astype(np.float32), none
    cpu_vocabulary.settle(states.numpy(), 0, weight.numpy(), bias.numpy(), *noted, slots, count)
    return torch.from_numpy(slots[cpu_rows.TOKEN])


def whole_numbers(tokens, rng):
    """States and weights that lose nothing in 8 bits, which the largest of them fill."""
    states = torch.randint(-127, 128, (40, 64), generator=rng).float()
    weight = torch.randint(-63, 64, (tokens, 64), generator=rng).float()
    states[:, 0], weight[:, 0] = 127, 63
    return states, weight


def test_products_that_cancel_are_rounded_further_than_8_bits_lose():
    rng, tokens = generator(3), 100
    states, weight = whole_numbers(tokens, rng)
    states, weight = torch.cat([states, states.flip(1)], 1), torch.cat([weight, -weight.flip(1)], 1)
    weight *= 1 + torch.randint(1, 2**17, (tokens, 1), generator=rng) / 2**17
    bias = -0.01 * torch.rand(tokens, generator=rng)  # all that is left but for rounding
    assert torch.equal(choose(states, weight, bias, screened=True), settled(states, weight, bias))


@pytest.mark.parametrize("seed", range(8))
def test_a_large_bias_rounds_scores_further_than_8_bits_lose(seed):
    """Every score lies in the middle between two numbers, and full scores may take the other one."""
    states, weight = whole_numbers(100, generator(seed))
    weight *= 2**-6 / (weight @ states[0]).unsqueeze(1)
    bias = torch.full((100,), 2.0**18)
    found = choose(states[:1], weight, bias, screened=True)
    assert torch.equal(found, settled(states[:1], weight, bias))


def test_the_bound_holds():
    """What the integers say of a score is never further from it than the bound."""
    rng = generator()
    weight, states = torch.randn(512, 48, generator=rng), torch.randn(64, 48, generator=rng)
    weight[3], states[5] = 0, 0
    weight[7] *= 1e-20
    short = cpu_choice.shorten(weight, np.zeros(512, np.float32))
    wholes, sizes = torch.zeros(64, 48, dtype=torch.int8), np.zeros((64, 3), np.float32)
    cpu_vocabulary.shorten(states.numpy(), 64, 0, cpu_vocabulary.OF_ROWS, wholes.numpy(), sizes)
    scale, norm, lost = torch.from_numpy(sizes).double().t()
    products = wholes.double() @ short.wholes.double().t()
    guessed = torch.outer(scale, torch.from_numpy(short.scales).double()) * products
    bounds = torch.from_numpy(short.bounds).double().repeat_interleave(cpu_vocabulary.CHUNK, 0)
    bound = bounds[:, 0] * norm.unsqueeze(1) + bounds[:, 1] * lost.unsqueeze(1)
    error = (guessed - scores_of(states, weight, torch.zeros(512))).abs()
    assert (error <= bound * (1 + 1e-5) + 1e-12).all()
    assert (error > bound / 20).any()  # nor is the bound idle
    assert short.wholes.abs().max() == cpu_vocabulary.OF_WEIGHTS
    assert wholes.abs().max() == cpu_vocabulary.OF_ROWS
