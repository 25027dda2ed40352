"""What the search takes at once stays within the budget that it was given."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from searnn import Encoded, devices
from searnn.devices import default_budget
from searnn.engine import Engine, using
from searnn.fast.cpu.decoder import workspace
from searnn.models import EncoderDecoder, Transformer
from searnn.policies import Learned
from searnn.rng import generator
from searnn.types import Batch, Branches, Inputs, Vocabulary

MODELS = {
    "gru": (64, lambda vocab: EncoderDecoder(vocab, source_size=vocab.size, width=64)),
    "lstm": (64, lambda vocab: EncoderDecoder(vocab, source_size=vocab.size, width=64, cell="lstm")),
    "attention": (64, lambda vocab: EncoderDecoder(vocab, source_size=vocab.size, width=64, attention="additive")),
    "many words": (4000, lambda vocab: EncoderDecoder(vocab, source_size=vocab.size, width=64)),
    "transformer": (64, lambda vocab: Transformer(vocab, source_size=vocab.size, width=64)),
}


def most_allocated(work) -> int:
    """The most bytes that tensors took at once on the CPU, beyond those that were there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        work()
    events = recorded.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return max(accumulate(change for _, change in changes))


def most_allocated_on_gpu(work) -> int:
    """The most bytes that tensors took at once on the GPU, beyond those that were there before."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def peaks(name, device, engine, measure):
    """The most that roll-outs of a model take, by budget, and what their outputs take with any budget."""
    size, make = MODELS[name]
    vocab = Vocabulary(size=size, pad=0, bos=1, eos=2)
    words = torch.randint(3, size, (8, 12), generator=generator(0, "words")).to(device)
    lengths = torch.full((8,), 12, device=device)
    batch = Batch(Inputs(words, lengths), words, lengths, vocab=vocab)
    model = make(vocab).eval().to(device)
    found = {}
    with using(Engine(engine)), torch.no_grad():
        memory = model.encode(batch.inputs)
        scores, trail = model.trace(memory, words)
        cells = torch.arange(12, device=device).expand(8, -1)
        tokens = scores.topk(16).indices
        branches = Branches(words, cells, tokens, torch.ones_like(tokens, dtype=torch.bool))
        rng = torch.Generator(device).manual_seed(0)

        def finish(policy):
            policy.roll_out(Encoded(model, memory, trail), branches, batch, rng)

        for budget in (2**20, 2**22, 2**24):
            found[budget] = measure(lambda budget=budget: finish(Learned(budget=budget)))
    return found, 2 * tokens.numel() * 12 * 8  # and what else there is of every branch


@pytest.mark.parametrize("engine", [pytest.param("plain", marks=pytest.mark.slow), "auto"])
@pytest.mark.parametrize("name", MODELS)
def test_roll_outs_take_no_more_than_the_budget(name, engine):
    """Beside the outputs, which are the same with any budget."""
    found, outputs = peaks(name, "cpu", engine, most_allocated)
    assert all(most - outputs <= budget for budget, most in found.items()), found
    if engine == "plain":
        assert found[2**20] < found[2**24]


def test_the_blocks_of_the_fast_path_take_what_they_say():
    """However many rows there are: the estimate holds, and is not far above."""
    pytest.importorskip("numba")
    for name in ("gru", "attention", "many words"):
        found, outputs = peaks(name, "cpu", "auto", most_allocated)
        size, make = MODELS[name]
        said = workspace(make(Vocabulary(size=size, pad=0, bos=1, eos=2)), 8 * 12)
        assert found[2**24] - outputs <= said <= 2**24


def test_the_default_is_half_of_what_is_free_and_no_more_than_the_cache_holds(monkeypatch):
    pages = {"SC_AVPHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(devices.os, "sysconf", pages.__getitem__)
    assert default_budget(torch.device("cpu")) == 1000 * 4096 // 2
    pages["SC_AVPHYS_PAGES"] = 10**9
    assert default_budget(torch.device("cpu")) == devices.CACHE_BYTES
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 2 * 10**9))
    assert default_budget(torch.device("cuda")) == 10**9 // 2


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["plain", "auto"])
@pytest.mark.parametrize("name", MODELS)
def test_roll_outs_on_a_gpu_take_no_more_than_the_budget(name, engine):
    found, outputs = peaks(name, "cuda", engine, most_allocated_on_gpu)
    assert all(most - outputs <= budget for budget, most in found.items()), found
    if engine == "plain":
        assert found[2**20] < found[2**24]
