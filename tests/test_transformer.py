"""The Transformer: the library's own layers, the triple loop, the cell-only gradient, and forks that copy nothing."""

import math

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, make_model, rng
from torch import nn
from triple_loop import check

from searnn import Batch, Inputs, Mle, Searnn, SearnnError, search, tree
from searnn.costs import EditDistance, Hamming
from searnn.decoding import decode
from searnn.losses import KLLoss, LogLoss
from searnn.models.encoder import sinusoids
from searnn.models.transformer import Transformer
from searnn.oracles import OptimalEdit
from searnn.policies import Focused, Learned, Mixed, Reference, Sampled
from searnn.samplers import PolicyTokens, TopTokens, UniformCells

close = torch.testing.assert_close
vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])


def case(vocab, lengths=(4, 2, 3), *, spread=2.0, seed=1, **settings):
    model = make_model(vocab, seed=seed, spread=spread, **(SETTINGS["transformer"] | settings))
    return model, make_batch(vocab, lengths, room=1)


def give_weights(theirs, attend):
    """Our four layers of an attention as the library's one stacked layer and its output."""
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([part.weight for part in (attend.query, attend.key, attend.value)]))
        theirs.in_proj_bias.copy_(torch.cat([part.bias for part in (attend.query, attend.key, attend.value)]))
        theirs.out_proj.load_state_dict(attend.combine.state_dict())


def give_rest(theirs, ours, norms):
    for number, norm in enumerate(norms, 1):
        getattr(theirs, f"norm{number}").load_state_dict(norm.state_dict())
    theirs.linear1.load_state_dict(ours.feed[1].state_dict())
    theirs.linear2.load_state_dict(ours.feed[3].state_dict())


def naive_positions(count, width):
    half = (width + 1) // 2
    angles = [[position / 10000 ** (2 * i / width) for i in range(half)] for position in range(count)]
    rows = [[*map(math.sin, row), *map(math.cos, row)][:width] for row in angles]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_positions_equal_the_formula(width):
    close(sinusoids(300, torch.zeros(width, dtype=torch.float64)), naive_positions(300, width))
    rough = sinusoids(300, torch.zeros(width, dtype=torch.bfloat16))
    close(rough.double(), naive_positions(300, width), rtol=0, atol=0.01)


@vocabs
def test_equals_the_layers_of_the_library(vocab):
    model, batch = case(vocab, lengths=(5, 3, 1), layers=3)
    shape = {"d_model": 6, "nhead": 2, "dim_feedforward": 24, "dropout": 0.0, "norm_first": True, "batch_first": True}
    padding = torch.arange(5) >= batch.inputs.lengths.unsqueeze(1)
    source = model.encoder.source.embed.weight[batch.inputs.values] * math.sqrt(6) + naive_positions(5, 6)
    for ours in model.encoder.layers:
        layer = nn.TransformerEncoderLayer(**shape).double()
        give_weights(layer.self_attn, ours.attend)
        give_rest(layer, ours, [ours.norm, ours.feed[0]])
        source = layer(source, src_key_padding_mask=padding)
    source = model.encoder.norm(source)
    count = batch.targets.shape[1]
    read = torch.cat([torch.full((3, 1), vocab.bos), batch.targets[:, :-1]], dim=1)
    values = model.embed.weight[read] * math.sqrt(6) + naive_positions(count, 6)
    future = torch.ones(count, count, dtype=torch.bool).triu(1)
    for ours in model.layers:
        layer = nn.TransformerDecoderLayer(**shape).double()
        give_weights(layer.self_attn, ours.attend)
        give_weights(layer.multihead_attn, ours.source)
        give_rest(layer, ours, [ours.norm, ours.source_norm, ours.feed[0]])
        values = layer(values, source, tgt_mask=future, memory_key_padding_mask=padding)
    expected = model.project(model.norm(values))
    close(model.trace(model.encode(batch.inputs), batch.targets)[0], expected)


roll_outs = {
    "reference": Reference(),
    "optimal": Reference(OptimalEdit()),
    "learned": Learned(),
    "beam": Learned(beam=3),
    "sampled": Sampled(),
    "mixed-example": Mixed(),
    "mixed-branch": Mixed(per="branch"),
    "mixed-token": Mixed(per="token"),
    "focused": Focused(1),
}


tasks = {"known": (KNOWN, 0), "free": (FREE, 1), "tight": (FREE, -1), "inside": (INSIDE, 1)}


@pytest.mark.parametrize("task", tasks)
@pytest.mark.parametrize("roll_out", roll_outs)
def test_the_search_equals_the_triple_loop(roll_out, task):
    vocab, room = tasks[task]
    model = make_model(vocab, seed=3, **SETTINGS["transformer"])
    batch = make_batch(vocab, lengths=(3, 2, 1), room=room)
    roll_in = {"learned": Learned(), "beam": Learned(beam=2), "focused": Reference()}.get(roll_out, Mixed(per="token"))
    check(model, batch, roll_in, roll_outs[roll_out], cost_names=("edit",))


@pytest.mark.parametrize("beam", [1, 3])
def test_the_budget_changes_nothing(beam):
    model, batch = case(FREE, lengths=(6, 2, 5, 1, 3))
    settings = {"roll_in": Learned(), "cost": EditDistance(), "rng": rng()}
    expected = search(model, batch, roll_out=Learned(beam=beam), **settings)
    for budget in (1, 10_000, 100_000):
        found = search(model, batch, roll_out=Learned(beam=beam, budget=budget), **settings)
        assert torch.equal(found.outputs, expected.outputs)


def test_a_fork_copies_nothing_and_rows_own_only_what_they_write():
    model, batch = case(KNOWN, lengths=(6, 4))
    memory = model.encode(batch.inputs)
    _, trail = model.trace(memory, batch.targets)
    forked, state = model.fork(memory, trail, torch.tensor([[0, 3, 5, 1, 1]] * 2))
    for ours, theirs in ((forked.prefix, trail), (forked.source, memory.source)):
        assert [leaf.data_ptr() for leaf in tree.leaves(ours)] == [leaf.data_ptr() for leaf in tree.leaves(theirs)]
    assert tree.bytes_per_row(state) == 8  # how much of the prefix it sees, and no more
    for written in (1, 2, 3):
        _, state = model.step(forked, state, torch.zeros(2, 5, dtype=torch.long))
        assert tree.bytes_per_row(state) == 8 + 2 * 2 * 6 * 8 * written  # keys and values, layers, width, bytes
        state = tree.take_rows(state, torch.tensor([[4, 3, 2, 1, 0]] * 2))
    assert model.row_bytes(memory, 4) > tree.bytes_per_row(state)


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() if p.grad is not None else torch.zeros_like(p) for name, p in model.named_parameters()}


@vocabs
def test_the_cell_alone_gets_the_gradient_of_one_step_from_fixed_states(vocab):
    """Against a loop that steps through the prefix and cuts what was written before every cell."""
    model, batch = case(vocab, spread=1.5)
    algorithm = Searnn(Learned(), Learned(), EditDistance(), KLLoss(2.0), classifier="cell")
    update = algorithm(model, batch, rng())
    found = gradients(model, update.loss)

    result = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), rng=rng())
    memory, state = model.encode(batch.inputs), model.start(model.encode(batch.inputs))
    columns, tokens = [], torch.full_like(result.prefix[:, :1], vocab.bos)
    for cell in range(result.prefix.shape[1]):
        scores, state = model.step(memory, tree.map_leaves(torch.Tensor.detach, state), tokens)
        columns.append(scores)
        tokens = result.prefix[:, cell : cell + 1]
    scores = torch.cat(columns, dim=1).gather(2, result.tokens)
    loss = KLLoss(2.0)(scores, result.costs.double(), result.valid).sum() / len(result.prefix)
    close(update.loss, loss)
    close(found, gradients(model, loss))
    whole = Searnn(Learned(), Learned(), EditDistance(), KLLoss(2.0))(model, batch, rng())
    close(whole.loss, update.loss)
    assert not torch.allclose(gradients(model, whole.loss)["embed.weight"], found["embed.weight"])


@pytest.mark.parametrize("classifier", ["network", "cell"])
def test_a_single_cell(classifier):
    model, batch = case(KNOWN, lengths=(1, 1))
    update = Searnn(Learned(), Learned(), Hamming(), LogLoss(), classifier=classifier)(model, batch, rng())
    close(update.loss, Mle()(model, batch, rng()).loss)
    update.loss.backward()


def test_sources_of_no_width_and_of_padding_alone_give_the_same():
    model, batch = case(FREE, lengths=(2, 1))
    empty = Inputs(torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, dtype=torch.long))
    padded = Inputs(torch.full((2, 3), 4), torch.zeros(2, dtype=torch.long))
    one, other = (model.trace(model.encode(inputs), batch.targets)[0] for inputs in (empty, padded))
    assert torch.isfinite(one).all()
    close(one, other)


def test_sixteen_bits():
    model, batch = case(FREE, width=16, heads=4, spread=1.0)
    with torch.autocast("cpu", torch.bfloat16):
        found = search(model.float(), batch, roll_in=Learned(), roll_out=Learned(beam=2), cost=Hamming(), rng=rng())
        loss = Searnn(Learned(), Mixed(), EditDistance(), KLLoss(2.0))(model.train(), batch, rng()).loss
    assert found.valid.any()
    loss.backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_the_first_scores_are_of_size_one_with_and_without_a_generator():
    for generator in (None, rng()):
        for width in (32, 256):
            model = Transformer(FREE, source_size=7, width=width, rng=generator)
            batch = make_batch(FREE, lengths=(5, 4))
            scores, _ = model.trace(model.encode(batch.inputs), batch.targets)
            assert 0.2 < scores.std() < 3
            ones = [part for part in model.modules() if isinstance(part, nn.LayerNorm)]
            assert all((norm.weight == 1).all() and (norm.bias == 0).all() for norm in ones)


def test_it_learns_to_copy():
    """At Adam's usual rate, on sequences that it has not seen."""
    generator = rng(1)

    def draw(count):
        words = torch.randint(1, 5, (count, 4), generator=generator)
        lengths = torch.randint(1, 5, (count,), generator=generator)
        positions = torch.arange(5)
        ended = torch.nn.functional.pad(words, (0, 1)).masked_fill(positions >= lengths.unsqueeze(1), FREE.pad)
        targets = torch.where(positions == lengths.unsqueeze(1), FREE.eos, ended)
        return Batch(Inputs(words, lengths), targets, torch.full((count,), 5), vocab=FREE)

    model = Transformer(FREE, source_size=5, width=128, layers=2, heads=4, rng=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    test = draw(50)
    before = (decode(model, test) != test.targets).any(1).float().mean()
    for step in range(200):
        optimizer.zero_grad()
        Mle()(model, draw(32), rng(step)).loss.backward()
        optimizer.step()
    after = (decode(model, test) != test.targets).any(1).float().mean()
    assert before > 0.7
    assert after < 0.2


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 10, "heads": 4},
        {"width": 0},
        {"heads": 0},
        {"layers": 0},
        {"feedforward": 0},
        {"dropout": 1.0},
        {"dropout": -0.1},
        {"source_size": 4},
        {"features": None},
    ],
    ids=str,
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(SearnnError):
        Transformer(KNOWN, **({"features": 3} | wrong))


@pytest.mark.gpu
@pytest.mark.parametrize("policy", roll_outs)
@vocabs
def test_the_same_on_a_gpu_without_waiting(vocab, policy):
    model, batch = case(vocab, lengths=(6, 5, 3, 1))
    settings = {
        "roll_in": Mixed(per="token"),
        "roll_out": roll_outs[policy],
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


@pytest.mark.gpu
@pytest.mark.parametrize("classifier", ["network", "cell"])
def test_a_whole_step_in_a_cuda_graph(classifier):
    model, batch = case(KNOWN, lengths=(6, 5, 3, 1), spread=1.0, width=32)
    model, batch = model.float().cuda().train(), batch.to("cuda")
    generator = torch.Generator("cuda").manual_seed(0)
    algorithm = Searnn(Learned(), Mixed(), Hamming(), KLLoss(2.0), tokens=TopTokens(3), classifier=classifier)
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
    assert all(parameter.grad.abs().sum() > 0 for name, parameter in model.named_parameters() if "feed" in name)
