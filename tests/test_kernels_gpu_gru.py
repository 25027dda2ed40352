"""Whole roll-outs in one kernel on a GPU, at the sizes of the paper's tasks: equal, captured, never waiting."""

import pytest
import torch
from cases import rng
from next_cases import assert_same_up_to_ties, learn

from searnn.decoding import Greedy, unroll
from searnn.engine import Engine, using
from searnn.fast.gpu.whole_rows import finish_rows
from searnn.models import EncoderDecoder
from searnn.searching.waves import open_rows
from searnn.types import Batch, Branches, Inputs, Rows, Vocabulary

pytestmark = pytest.mark.gpu

OCR = Vocabulary(26, 26, 27)
SPELLING = Vocabulary(43, 0, 1, 2)
SETTINGS = {
    "ocr": (OCR, 64, 15, {"features": 128, "width": 128}),
    "ocr-aligned": (OCR, 64, 15, {"features": 128, "width": 128, "attention": "aligned"}),
    "spelling": (SPELLING, 128, 10, {"source_size": 43, "width": 100, "attention": "additive", "bidirectional": True}),
    "wide": (Vocabulary(250, 250, 251, 0), 8, 6, {"source_size": 43, "width": 256, "attention": "additive"}),
    "narrow": (SPELLING, 8, 6, {"source_size": 43, "width": 8, "attention": "aligned"}),
}
ROUNDING = 2e-4  # of scores around 10
SHARE = 0.02  # of rows in which a near tie may be decided otherwise


def make_case(name, start=False, train=0):
    """The rows of a search over all tokens at all cells, or those of its roll-in."""
    vocab, examples, length, settings = SETTINGS[name]
    model = EncoderDecoder(vocab, rng=rng(), **settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    sources = torch.randint(3, length + 1, (examples,), generator=rng(1))
    values = torch.randint(43, (examples, length), generator=rng(2))
    if "features" in settings:
        values = torch.randn(examples, length, 128, generator=rng(2))
    words = torch.tensor([token for token in vocab.choosable if token != vocab.eos])
    prefix = words[torch.randint(len(words), (examples, length), generator=rng(3))].cuda()
    model = model.cuda()
    if train:
        learn(model, Batch(Inputs(values.cuda(), sources.cuda()), prefix, sources.cuda(), vocab=vocab), train)
    limits = sources.cuda().unsqueeze(1)
    with torch.no_grad():
        memory = model.encode(Inputs(values.cuda(), sources.cuda()))
        if start:
            rows = Rows(torch.full_like(prefix, vocab.pad).unsqueeze(1), torch.full_like(limits, -1), limits)
            return model, memory, model.start(memory), rows
        _, trail = model.trace(memory, prefix)
        cells = torch.arange(length, device="cuda").expand(examples, -1)
        tokens = torch.tensor(vocab.choosable, device="cuda").expand(examples, length, -1)
        wanted = torch.ones_like(tokens, dtype=torch.bool)
        outputs = open_rows(Branches(prefix, cells, tokens, wanted), wanted, sources.cuda(), None, vocab.pad).outputs
        at = cells.repeat_interleave(len(vocab.choosable), 1)
        memory, state = model.fork(memory, trail, at)
    return model, memory, state, Rows(outputs, at, limits.expand_as(at))


def plainly(model, memory, state, rows):
    with torch.no_grad(), using(Engine("plain")):
        return unroll(model, memory, state, rows, Greedy(model.vocab), [rows.outputs.shape[1]] * rows.outputs.shape[2])


def by_kernel(case, precision="float32"):
    with torch.no_grad(), using(Engine("triton", precision)):
        return finish_rows(*case)


@pytest.mark.parametrize("start", [False, True], ids=["roll-out", "roll-in"])
@pytest.mark.parametrize("name", SETTINGS)
def test_equal_to_the_plain_loop(name, start):
    case = make_case(name, start)
    expected, found = plainly(*case), by_kernel(case)
    share = assert_same_up_to_ties(case[0], case[1], expected, found, ROUNDING)
    assert share < SHARE
    assert (expected != case[3].outputs).float().mean() > 0.1


@pytest.mark.parametrize("name", ["ocr", "ocr-aligned", "spelling"])
def test_a_trained_model(name):
    case = make_case(name, train=100)
    expected = plainly(*case)
    share = assert_same_up_to_ties(case[0], case[1], expected, by_kernel(case), ROUNDING)
    assert share < SHARE
    assert (expected != plainly(*make_case(name))).float().mean() > 0.02


@pytest.mark.parametrize("name", ["ocr", "spelling"])
@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_low_precision_changes_only_near_ties(name, precision):
    case = make_case(name)
    assert_same_up_to_ties(
        case[0], case[1], plainly(*case), by_kernel(case, precision), 0.02 if precision == "tf32" else 0.2
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_twice_the_same(name):
    case = make_case(name)
    found = by_kernel(case)
    for _ in range(5):
        assert torch.equal(by_kernel(case), found)


@pytest.mark.parametrize("start", [False, True], ids=["roll-out", "roll-in"])
@pytest.mark.parametrize("name", ["ocr", "spelling"])
def test_captured_without_waiting(name, start):
    model, memory, state, rows = case = make_case(name, start)
    first = by_kernel(case)
    torch.cuda.set_sync_debug_mode("error")
    try:
        by_kernel(case)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        by_kernel(case)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        found = by_kernel(case)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(found, first)
    with torch.no_grad():  # what is captured follows the weights and the state
        model.project.bias.add_(torch.linspace(-1, 1, model.vocab.size, device="cuda"))
        state.hidden[0].mul_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    again = by_kernel((model, memory, state, rows))
    assert torch.equal(found, again)
    assert not torch.equal(found, first)
