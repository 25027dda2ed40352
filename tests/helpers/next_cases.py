"""Rows for tests of the kernels that finish them token by token, the plain result, and what may differ from it."""

import torch
from cases import make_batch, make_model, rng

from searnn import tree
from searnn.decoding import Greedy, unroll
from searnn.engine import Engine, using
from searnn.sequences import forbid
from searnn.types import Rows


def make_rows(vocab, *, cells=None, lengths=(5, 3, 6, 1), seed=0, count=7, train=0, **settings):
    """A float32 model, its memory and rows forked from random prefixes, each at its own cell and with its own room."""
    model = make_model(vocab, seed, **settings).float()
    batch = make_batch(vocab, lengths, seed, room=3)
    if train:
        learn(model, batch, train)
    prefix = batch.targets
    examples, length = prefix.shape
    with torch.no_grad():
        memory = model.encode(batch.inputs)
        if cells == -1:
            outputs, at = torch.full((examples, 1, length), vocab.pad), torch.full((examples, 1), -1)
            return model, memory, model.start(memory), Rows(outputs, at, batch.lengths.unsqueeze(1))
        at = torch.randint(length - 1, (examples, count), generator=rng(seed))
        _, trail = model.trace(memory, prefix)
        memory, state = model.fork(memory, trail, at)
    tokens = torch.tensor(vocab.choosable)[torch.randint(len(vocab.choosable), (examples, count), generator=rng(1))]
    ahead = torch.arange(length) - at.unsqueeze(-1)
    outputs = torch.where(ahead < 0, prefix.unsqueeze(1), torch.where(ahead == 0, tokens.unsqueeze(-1), vocab.pad))
    limits = batch.lengths.unsqueeze(1).expand_as(at).clone()
    limits[:, ::3] -= 1  # rows of one example need not have the same room
    limits[0] = at[0] + 1  # and one has none at all
    return model, memory, state, Rows(outputs, at, limits)


def learn(model, batch, steps):
    """Some steps of maximum likelihood, so that the model's scores are those of a trained one."""
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), 0.02)
    inside = batch.targets != batch.vocab.pad
    for _ in range(steps):
        scores, _ = model.trace(model.encode(batch.inputs), batch.targets)
        loss = torch.nn.functional.cross_entropy(scores[inside], batch.targets[inside])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()


def plainly(model, memory, state, rows):
    """What the plain loop makes of the rows."""
    with torch.no_grad(), using(Engine("plain")):
        return unroll(model, memory, state, rows, Greedy(model.vocab), [rows.outputs.shape[1]] * rows.outputs.shape[2])


def assert_same_up_to_ties(model, memory, expected, found, tolerance, most=100):
    """Equal token by token; where a row differs, the plain scores of its first two different tokens are nearly equal.

    Of the rows that differ `most` are looked at. Returns their share.
    """
    different = (expected != found).any(-1)
    for example, row in different.nonzero()[:most].tolist():
        both = torch.stack([expected[example, row], found[example, row]])
        cell = int((both[0] != both[1]).nonzero()[0])
        own = tree.take_examples(memory, torch.tensor([example], device=both.device))
        with torch.no_grad():
            scores = forbid(model.trace(own, both[:1])[0][0, cell], model.vocab)
        assert both[1, cell] < model.vocab.size
        gap = scores[both[0, cell]] - scores[both[1, cell]]
        assert gap.abs() < tolerance, f"row {row} of example {example}, cell {cell}: {both.tolist()}, gap {gap:g}"
    return float(different.float().mean())
