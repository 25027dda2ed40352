"""The search on a GPU: the same as on the CPU, never waits for the device, and can be captured in a CUDA graph."""

import pytest
import torch
from cases import FREE, KNOWN, make_batch, make_model, rng

from searnn import Searnn, search
from searnn.costs import EditDistance, Hamming
from searnn.losses import KLLoss, LogLoss
from searnn.oracles import OptimalEdit
from searnn.policies import Focused, Learned, Mixed, Reference, Sampled
from searnn.samplers import PolicyTokens, TopTokens, UniformCells

pytestmark = pytest.mark.gpu

policies = {
    "learned": Learned(),
    "beam": Learned(beam=3),
    "optimal": Reference(OptimalEdit()),
    "sampled": Sampled(),
    "mixed-example": Mixed(),
    "mixed-cell": Mixed(per="cell"),
    "mixed-branch": Mixed(per="branch"),
    "mixed-token": Mixed(per="token"),
    "focused": Focused(2),
    "waves": Learned(budget=20_000),
}


def case(vocab):
    return make_model(vocab, seed=1, attention="additive"), make_batch(vocab, lengths=(6, 5, 3, 1), room=2)


@pytest.mark.parametrize("policy", policies)
@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_the_same_as_on_the_cpu_without_waiting(vocab, policy):
    model, batch = case(vocab)
    settings = {
        "roll_in": Mixed(per="token"),
        "roll_out": policies[policy],
        "cost": EditDistance(),
        "tokens": PolicyTokens(4),
        "cells": UniformCells(4),
    }
    expected = search(model, batch, rng=rng(), **settings)
    model, batch = model.cuda(), batch.to("cuda")
    search(model, batch, rng=rng(), **settings)  # the libraries' own first-call waits
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = search(model, batch, rng=rng(), **settings)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    for name in ("prefix", "cells", "tokens", "valid", "outputs", "costs"):
        assert torch.equal(getattr(found, name).cpu(), getattr(expected, name)), name


@pytest.mark.parametrize("loss", [KLLoss(2.0), LogLoss(ties="random")], ids=["kl", "ll"])
def test_a_whole_step_in_a_cuda_graph(loss):
    model, batch = make_model(KNOWN, seed=1).cuda().train(), make_batch(KNOWN, lengths=(6, 5, 3, 1)).to("cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    algorithm = Searnn(Learned(), Mixed(), Hamming(), loss, tokens=TopTokens(3))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(2):
            algorithm(model, batch, generator).loss.backward()
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(generator)
        model.zero_grad(set_to_none=False)
        with torch.cuda.graph(graph, stream=side):
            captured = algorithm(model, batch, generator).loss
            captured.backward()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.isfinite(captured)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    assert any(parameter.grad.abs().sum() > 0 for parameter in model.parameters())
