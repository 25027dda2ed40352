"""The kernels of additive attention and of the GRU layer over listed rows, against the modules they stand for."""

import pytest
import torch
from cases import rng

from searnn.fast.host import interpreted
from searnn.models.attention import AdditiveAttention
from searnn.models.layers import GruLayer

pytest.importorskip("triton")

from searnn.fast.gpu import attention, recurrence
from searnn.fast.gpu.alive import Alive
from searnn.fast.gpu.attention import AttentionTiles
from searnn.fast.gpu.product import operand, product_of, stored_as

pytestmark = pytest.mark.skipif(not interpreted(), reason="on the CPU kernels need TRITON_INTERPRET=1")
SMALL = AttentionTiles(16, 16, 16, 4, 2)
TOLERANCES = {"float32": 1e-5, "tf32": 1e-5, "bf16": 0.05}  # the interpreter multiplies in float32 also for tf32


def listed(examples, count, kept):
    """Some rows of every example in a mixed order, as alive; and which rows these are, by place."""
    order = torch.full((examples, count), -7, dtype=torch.int32)
    chosen = []
    for example, many in enumerate(kept):
        rows = torch.randperm(count, generator=rng(example))[:many]
        order[example, :many] = example * count + rows
        chosen.append((torch.full_like(rows, example), rows))
    return Alive(order, torch.tensor(kept, dtype=torch.int32)), [torch.cat(part) for part in zip(*chosen, strict=True)]


@pytest.fixture(autouse=True)
def without_gradient():
    with torch.no_grad():
        yield


def make_attention(width, features, attended, examples=3, words=5, scale=1.0):
    made = rng(3)
    module = AdditiveAttention(width, features, attended)
    for parameter in module.parameters():
        parameter.copy_(scale * torch.randn(parameter.shape, generator=made))
    sources = torch.randn(examples, words, features, generator=made)
    mask = torch.arange(words) < torch.tensor([words, 2, 0][:examples]).unsqueeze(1)  # one source is empty
    return module, module.keys(sources), sources, mask


def run(module, keys, features, mask, combine, hidden, alive, precision="float32", tiles=SMALL):
    query = module.query.weight, module.query.bias
    prepared = attention.prepare(query, module.score.weight, keys, features, mask, combine, precision, tiles)
    ready = torch.full((hidden.shape[0] * hidden.shape[1], len(combine[0])), torch.nan)
    ready = ready.to(stored_as(prepared.product))
    attention.attend(prepared, alive, hidden.flatten(0, 1), ready)
    return ready.float()


@pytest.mark.parametrize("tiles", [SMALL, AttentionTiles(32, 32, 32, 4, 2)], ids=["small", "wide"])
def test_the_context_is_that_of_the_module(tiles):
    width, features = 12, 20
    module, *source = make_attention(width, features, attended=9)
    hidden = torch.randn(3, 18, width, generator=rng(1))
    alive, (examples, rows) = listed(3, 18, (18, 3, 7))
    only_context = torch.cat([torch.zeros(features, width), torch.eye(features)], 1), torch.zeros(features)
    found = run(module, *source, only_context, hidden, alive, tiles=tiles)
    expected = module(hidden, *source)[examples, rows]
    torch.testing.assert_close(found[: len(rows)], expected, rtol=1e-5, atol=1e-5)
    assert found[len(rows) :].isnan().all()  # rows that are not listed are not touched


@pytest.mark.parametrize("precision", TOLERANCES)
def test_state_and_context_are_combined(precision):
    width, features = 40, 24
    module, *source = make_attention(width, features, attended=40, scale=0.3)
    hidden = torch.randn(3, 6, width, generator=rng(1))
    alive, (examples, rows) = listed(3, 6, (4, 0, 6))
    layer = torch.nn.Linear(width + features, 33)
    found = run(module, *source, (layer.weight, layer.bias), hidden, alive, precision)[: len(rows)]
    expected = layer(torch.cat([hidden, module(hidden, *source)], -1))[examples, rows]
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCES[precision])
    assert torch.equal(found, expected) is False  # another order of sums


@pytest.mark.filterwarnings("ignore:overflow encountered")  # numpy's: where the exponentials overflow, tanh is 1
def test_large_queries_and_keys_saturate_without_nan():
    module, keys, features, mask = make_attention(8, 8, attended=8)
    hidden = 60 * torch.randn(3, 4, 8, generator=rng(1))
    alive, (examples, rows) = listed(3, 4, (4, 4, 4))
    only_context = torch.cat([torch.zeros(8, 8), torch.eye(8)], 1), torch.zeros(8)
    for size in (1.0, 60.0):
        found = run(module, size * keys, features, mask, only_context, hidden, alive)
        assert found.isfinite().all()
    found = run(module, keys, features, mask, only_context, hidden, alive)
    torch.testing.assert_close(found, module(hidden, keys, features, mask)[examples, rows], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("by_row", [False, True], ids=["by-token", "by-row"])
@pytest.mark.parametrize("sees", [False, True], ids=["blind", "aligned"])
def test_the_cell_is_that_of_the_layer(precision, by_row, sees):
    width, size, words = 40, 9, 4
    made, layer, product = rng(2), GruLayer(16, 40), product_of(precision)
    hidden = torch.randn(3, 20, width, generator=made)
    tokens = torch.randint(size, (3, 20), generator=made)
    entering = layer.enter(torch.randn(size, 16, generator=made))
    seen = layer.enter(torch.randn(3, words, 16, generator=made), bias=False) if sees else None
    position = torch.randint(words + 1, (3, 20), generator=made) if sees else None
    alive, (examples, rows) = listed(3, 20, (20, 0, 5))
    given = tuple(part[tokens.flatten()] for part in entering) if by_row else entering
    prepared = recurrence.Recurrence(
        operand(layer.weight_hh_l0, product), layer.bias_hh_l0[2 * width :], seen, position, product,
        recurrence.RecurrenceTiles(16, 16, 16, 4, 2),
    )  # fmt: skip
    to, ready = torch.full((60, width), torch.nan), torch.full((60, width), torch.nan).to(stored_as(product))
    numbers = None if by_row else tokens.to(torch.int32)
    recurrence.advance_rows(prepared, alive, numbers, given, hidden.flatten(0, 1), to, ready, added=1)
    gates = [part[tokens] for part in entering]
    if sees:
        for gate, part in zip(gates, seen, strict=True):
            padded = torch.cat([part, torch.zeros_like(part[:, :2])], 1)  # nothing is seen past the end
            gate += padded[torch.arange(3).unsqueeze(1), position + 1]
    expected = layer.advance(tuple(gates), hidden, None, None)[0][examples, rows]
    found = to.view(3, 20, width)[examples, rows]
    torch.testing.assert_close(found, expected, rtol=0, atol=TOLERANCES[precision])
    # The interpreter cuts off the bits that do not fit, a GPU rounds.
    torch.testing.assert_close(ready[: len(rows)].float(), found, rtol=2**-7 if precision == "bf16" else 0, atol=0)
    assert to.isnan().any(1).sum() == ready.isnan().any(1).sum() == 60 - len(rows)
