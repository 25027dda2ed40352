"""Whole roll-outs in one kernel, run by Triton's interpreter: token by token what the plain loop writes."""

from dataclasses import replace

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model
from next_cases import assert_same_up_to_ties, make_rows, plainly

from searnn.engine import Engine, using
from searnn.fast import host
from searnn.fast.gpu.gru_tiles import Tiles, choose_tiles, padded_sizes, shared_bytes
from searnn.fast.gpu.whole_rows import finish_rows
from searnn.types import Rows, Vocabulary

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU test_kernels_gpu_gru.py runs the kernels")

VOCABULARIES = {"known": KNOWN, "free": FREE, "inside": INSIDE}
ATTENTIONS = ("none", "additive", "aligned")
ROUNDING = 1e-4  # of scores around 10
MANY = Tiles(64, 16, 16, 4, 2)


def make_case(vocab, **settings):
    return make_rows(vocab, **({"lengths": (4, 2, 1)} | settings))


def by_kernel(case, precision="float32", **settings):
    with torch.no_grad(), using(Engine("triton", precision)):
        return finish_rows(*case, **settings)


def assert_same(case, tolerance=ROUNDING, **settings):
    model, memory, _, rows = case
    expected, found = plainly(*case), by_kernel(case, **settings)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found is not rows.outputs
    different = assert_same_up_to_ties(model, memory, expected, found, tolerance)
    assert (expected != rows.outputs).any()
    return different


@pytest.mark.parametrize("cells", [None, -1], ids=["roll-out", "roll-in"])
@pytest.mark.parametrize("vocab", VOCABULARIES)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_equal_to_the_plain_loop(attention, vocab, cells):
    assert assert_same(make_case(VOCABULARIES[vocab], cells=cells, attention=attention)) == 0


@pytest.mark.parametrize("width", [1, 16, 33, 100])
@pytest.mark.parametrize("attention", ["additive", "aligned"])
def test_widths(attention, width):
    spread = 4.0 if width < 50 else 2.0  # the larger ones would saturate
    case = make_case(FREE, attention=attention, width=width, count=4, spread=spread, bidirectional=width > 50)
    assert assert_same(case) == 0


def test_width_100_without_attention():
    assert assert_same(make_case(FREE, width=100, count=4, spread=2.0)) == 0


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_several_blocks_of_an_example(attention):
    assert assert_same(make_case(INSIDE, attention=attention, count=70), tiles=MANY) == 0


@pytest.mark.parametrize("attention", ["additive", "aligned"])
def test_blocks_with_rows_of_several_examples(attention):
    assert assert_same(make_case(FREE, attention=attention, count=37), tiles=MANY) == 0


@pytest.mark.parametrize("settings", [{}, {"attention": "additive"}, {"encoder": "convolutional"}], ids=str)
def test_a_trained_model(settings):
    settings = settings | ({"attention": "additive", "window": 3} if "encoder" in settings else {})
    case = make_case(FREE, train=60, width=12, spread=1.0, **settings)
    assert assert_same(case) == 0
    assert (plainly(*case) == FREE.eos).any()


@pytest.mark.parametrize("product", ["ieee", "tf32x3", "tf32"])
def test_products(product):
    assert assert_same(make_case(FREE, attention="additive"), tiles=Tiles(16, 16, 16, 4, 1, product)) == 0


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_low_precision_changes_only_near_ties(attention):
    case = make_case(FREE, attention=attention, width=12, spread=2.0, lengths=(3, 1))
    assert_same(case, 0.05, precision="bf16")
    assert_same(case, 0.01, precision="tf32")


def test_a_difference_is_seen():
    model, memory, state, rows = make_case(FREE, width=12)
    expected = plainly(model, memory, state, rows)
    found = expected.clone()
    place = (expected != rows.outputs).nonzero()[0]
    found[tuple(place)] = FREE.size - 1 - found[tuple(place)]
    with pytest.raises(AssertionError, match="gap"):
        assert_same_up_to_ties(model, memory, expected, found, ROUNDING)


@pytest.mark.parametrize("attention", ["none", "additive"])
def test_the_first_of_equal_scores_wins(attention):
    case = make_case(FREE, attention=attention)
    with torch.no_grad():
        case[0].project.weight[1:] = 0  # four tokens that always have equal scores
        case[0].project.bias[1:] = 0
    found = by_kernel(case)
    assert torch.equal(found, plainly(*case))
    written = found[found != case[3].outputs]
    assert written.max() == 1


def test_rows_without_room_stay_as_they_are():
    model, memory, state, rows = make_case(FREE, attention="additive", count=20)
    ended = rows.outputs.clone()
    ended[:, ::2].scatter_(2, rows.cells[:, ::2, None], FREE.eos)
    full = torch.where(torch.arange(20) % 3 == 0, rows.cells + 1 - torch.arange(20) % 2, rows.limits)
    case = (model, memory, state, Rows(ended, rows.cells, full))
    found = by_kernel(case)
    assert torch.equal(found, plainly(*case))
    assert torch.equal(found[:, ::2], ended[:, ::2])
    assert torch.equal(found[:, ::3], ended[:, ::3])
    assert not torch.equal(found, ended)


def test_a_limit_beyond_the_last_cell_ends_there():
    model, memory, state, rows = make_case(KNOWN)
    long = Rows(rows.outputs, rows.cells, torch.full_like(rows.limits, 99))
    least = Rows(rows.outputs, rows.cells, torch.full_like(rows.limits, rows.outputs.shape[-1]))
    assert torch.equal(by_kernel((model, memory, state, long)), plainly(model, memory, state, least))


def test_attention_far_out():
    model, memory, state, rows = make_case(FREE, attention="additive", width=12, spread=2.0)
    with torch.no_grad():
        model.attend.query.weight.mul_(5)
    memory = memory._replace(keys=memory.keys * (18 / memory.keys.abs().max()))
    assert assert_same((model, memory, state, rows)) == 0


def test_a_source_without_positions():
    model, memory, state, rows = make_case(FREE, attention="additive")
    empty = torch.tensor([0, 1, 0], dtype=torch.bool).unsqueeze(1)
    memory = memory._replace(mask=memory.mask & empty, features=memory.features * empty.unsqueeze(-1))
    assert torch.equal(by_kernel((model, memory, state, rows)), plainly(model, memory, state, rows))


def test_positions_behind_a_masked_one():
    model, memory, state, rows = make_case(FREE, attention="additive")
    mask = memory.mask.clone()
    mask[:, 0] = False
    memory = memory._replace(mask=mask)
    assert torch.equal(by_kernel((model, memory, state, rows)), plainly(model, memory, state, rows))


def test_long_sources():
    case = make_case(FREE, attention="additive", lengths=(35, 2), count=2)
    short = Rows(case[3].outputs, case[3].cells, torch.minimum(case[3].limits, case[3].cells + 4))
    assert assert_same((*case[:3], short)) == 0


@pytest.mark.parametrize(
    "settings", [{"cell": "lstm"}, {"layers": 2}, {"width": 257}, {"vocab": Vocabulary(300, 300, 301)}], ids=str
)
def test_models_it_does_not_serve(settings):
    case = make_case(settings.pop("vocab", FREE), count=2, **settings)
    assert by_kernel(case) is None


def test_where_it_does_not_apply(monkeypatch):
    case = make_case(FREE)
    with using(Engine("triton")):
        assert finish_rows(*case) is None  # gradients are on
        with torch.no_grad():
            assert finish_rows(*case) is not None
            with torch.autocast("cpu", torch.bfloat16):
                assert finish_rows(*case) is None
            monkeypatch.setattr(host, "has_triton", lambda: False)
            assert finish_rows(*case) is None
    for kind in ("plain", "auto"):
        with torch.no_grad(), using(Engine(kind)):
            assert finish_rows(*case) is None


def test_dropout_and_other_types():
    model = make_model(FREE, dropout=0.5).float()
    batch = make_batch(FREE, (3, 2))
    rows = Rows(batch.targets.unsqueeze(1), torch.full((2, 1), -1), batch.lengths.unsqueeze(1))
    with torch.no_grad():
        memory = model.encode(batch.inputs)
        assert by_kernel((model, memory, model.start(memory), rows)) is not None
        model.train()
        assert by_kernel((model, memory, model.start(memory), rows)) is None
        model.eval().double()
        memory = model.encode(batch.inputs)
        assert by_kernel((model, memory, model.start(memory), rows)) is None


def test_packed_weights_are_the_models():
    from searnn.fast.gpu.gru_pack import SCALE, pack

    rng = torch.Generator().manual_seed(0)
    recurrent, query, scores = (
        torch.randn(rows, 20, generator=rng) * size for rows, size in ((60, 1), (7, 40), (5, 9))
    )
    scores[0, 0] = 1e9  # nothing like it exists; it must not become infinite
    biases = [torch.randn(rows, generator=rng) for rows in (60, 7, 5)]
    sizes = padded_sizes(20, 7, 5, Tiles(16, 32, 16, 4, 1))
    packed = pack((recurrent, biases[0]), (query, biases[1]), (scores, biases[2]), sizes, "halves")
    found = packed.weights.double().sum(0) / SCALE
    expected = torch.zeros(sizes.total, sizes.padded, dtype=torch.double)
    bias = torch.zeros(sizes.total)
    for gate in range(3):
        expected[32 * gate : 32 * gate + 20, :20] = recurrent[20 * gate : 20 * gate + 20]
    bias[64:84] = biases[0][40:]  # the others are in the table of the tokens' gates
    expected[96:103, :20], bias[96:103] = query.double(), biases[1]
    expected[112:117, :20], bias[112:117] = scores.double().clamp(max=65504 / SCALE), biases[2]
    assert torch.isfinite(packed.weights).all()
    assert torch.allclose(found, expected, rtol=2**-21, atol=2e-9)
    assert torch.equal(packed.biases, bias)


@pytest.mark.parametrize("rows", [1, 31, 32, 400])
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
def test_tiles_fit_the_shared_memory(precision, rows):
    for width in (1, 16, 100, 128, 200, 256):
        for vocabulary in (2, 26, 128, 256):
            for attention in (0, width):
                for shared in (48 * 1024, 99 * 1024, 227 * 1024):
                    tiles = choose_tiles(width, attention, vocabulary, rows, precision, shared)
                    sizes = padded_sizes(width, attention, vocabulary, tiles)
                    assert shared_bytes(tiles, sizes) <= shared
                    assert min(tiles.rows, tiles.units, tiles.depth) >= 16
                    assert sizes.padded % tiles.units == sizes.padded % tiles.depth == 0
                    assert sizes.padded >= width


def test_the_shape_of_the_blocks_changes_nothing():
    case = make_case(INSIDE, attention="additive", lengths=(3, 2), width=20, count=5)
    found = by_kernel(case, tiles=MANY)
    for tiles in (Tiles(16, 32, 16, 8, 3), replace(MANY, depth=32)):
        assert torch.equal(by_kernel(case, tiles=tiles), found)
