"""The kernels for large vocabularies on a GPU, in the sizes of translation: compiled, captured, never waiting."""

import pytest
import torch
from kernel_cases import best_tokens
from next_cases import assert_same_up_to_ties

from searnn.decoding import Greedy, unroll
from searnn.engine import Engine, using
from searnn.fast.gpu.next_tokens import finish_rows
from searnn.models import EncoderDecoder
from searnn.types import Inputs, Rows, Vocabulary

pytestmark = pytest.mark.gpu
WORDS = Vocabulary(size=22822, pad=0, bos=1, eos=2)
GAPS = {"float32": 1e-4, "tf32": 0.02, "bf16": 0.1}  # how far the score of the token found may lie below the best


@pytest.fixture(autouse=True)
def without_gradient():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("precision", GAPS)
@pytest.mark.parametrize("rows", [20_000, 64, 1])
def test_best_tokens(rows, precision):
    made = torch.Generator("cuda").manual_seed(0)
    hidden = torch.randn(rows, 256, device="cuda", generator=made)
    weight = torch.randn(WORDS.size, 256, device="cuda", generator=made) / 16
    bias = torch.randn(WORDS.size, device="cuda", generator=made)
    bias[:2] += 100
    found = best_tokens(hidden, weight, bias, (0, 1), precision)
    scores = hidden @ weight.t() + bias
    scores[:, :2] = -torch.inf
    gap = scores.max(1).values - scores.gather(1, found.unsqueeze(1)).squeeze(1)
    assert gap.max() < GAPS[precision]
    same = (found == scores.max(1).indices).float().mean()
    assert rows < 100 or same >= {"float32": 0.999, "tf32": 0.98, "bf16": 0.9}[precision]


def translation(examples=64, cells=25, candidates=25, length=25, seed=0, **settings):
    """A model and rows as in translation: every other example is left to the reference, so its rows have no room."""
    made = torch.Generator().manual_seed(seed)
    kept = {"width": 256, "attention": "additive", "bidirectional": True} | settings
    model = EncoderDecoder(WORDS, source_size=3000, rng=made, **kept).cuda().eval()
    for parameter in model.parameters():
        parameter.mul_(3)  # so that choices differ from cell to cell
    sources = torch.randint(5, length + 1, (examples,), generator=made).cuda()
    inputs = Inputs(torch.randint(3000, (examples, length), generator=made).cuda(), sources)
    prefix = torch.randint(3, WORDS.size, (examples, length), generator=made).cuda()
    at = torch.arange(cells).repeat_interleave(candidates).expand(examples, -1).cuda()
    tokens = torch.randint(2, WORDS.size, at.shape, generator=made).cuda()
    ahead = torch.arange(length, device="cuda") - at.unsqueeze(-1)
    outputs = torch.where(ahead < 0, prefix.unsqueeze(1), torch.where(ahead == 0, tokens.unsqueeze(-1), WORDS.pad))
    limits = torch.full_like(at, length)
    limits[::2] = 0
    memory = model.encode(inputs)
    memory, state = model.fork(memory, model.trace(memory, prefix)[1], at)
    return model, memory, state, Rows(outputs, at, limits)


def fast(case, precision="float32"):
    with using(Engine("triton", precision)):
        found = finish_rows(*case)
    assert found is not None
    return found


@pytest.mark.parametrize("precision", GAPS)
@pytest.mark.parametrize("attention", ["additive", "none", "aligned"])
def test_rows_are_finished_as_by_the_plain_loop(attention, precision):
    case = translation(examples=8, attention=attention)
    model, memory, state, rows = case
    expected = unroll(model, memory, state, rows, Greedy(WORDS), [rows.cells.shape[1]] * 24)
    found = fast(case, precision)
    share = assert_same_up_to_ties(model, memory, expected, found, GAPS[precision] * 10)
    assert precision != "float32" or share < 0.01
    assert torch.equal(found[::2], rows.outputs[::2])


def test_roll_ins_of_one_row():
    model, memory, _, rows = translation()
    outputs = torch.full_like(rows.outputs[:, :1], WORDS.pad)
    start = Rows(outputs, torch.full_like(rows.cells[:, :1], -1), torch.full_like(rows.cells[:, :1], 25))
    expected = unroll(model, memory, model.start(memory), start, Greedy(WORDS), [1] * 25)
    found = fast((model, memory, model.start(memory), start))
    assert assert_same_up_to_ties(model, memory, expected, found, 1e-3) < 0.05


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_captured_in_a_cuda_graph_without_waiting(precision):
    case = translation()
    state, rows = case[2:]
    expected = fast(case, precision)  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        fast(case, precision)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        fast(case, precision)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        captured = fast(case, precision)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, expected)
    # With other rows in the same places the graph does the other work.
    rows.limits[:] = torch.where(rows.limits == 0, 20, 0)
    state.hidden[0].copy_(state.hidden[0].flip(1))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, fast(case, precision))
    assert torch.equal(captured[1::2], rows.outputs[1::2])
    assert not torch.equal(captured[::2], rows.outputs[::2])
