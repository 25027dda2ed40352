"""Outputs, truths and branches for the kernels on token sequences: empty, repeated, cut, with noise after the end."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from searnn.engine import Engine, using
from searnn.sequences.ends import valid_cells
from searnn.types import Batch, Branches, Vocabulary

KNOWN = Vocabulary(size=5, pad=5, bos=6)
INSIDE = Vocabulary(size=7, pad=0, bos=1, eos=2)
FREE = Vocabulary(size=5, pad=5, bos=6, eos=0)
UNKNOWN = 3
CASES = [(INSIDE, 8, 2, 0), (KNOWN, 8, 3, 1), (FREE, 7, 4, 2), (FREE, 1, 2, 3), (INSIDE, 4, 1, 4)]
"""Vocabularies, widths, numbers of different words and seeds; `anything` draws more of them."""


def anything(vocabularies=(KNOWN, INSIDE, FREE), widest=8, examples=25):
    """A test on drawn cases: many, since the first that are drawn are trivial."""

    def decorate(check):
        drawn = given(st.sampled_from(vocabularies), st.integers(1, widest), st.integers(1, 4), st.integers(0, 2**31))
        return settings(max_examples=examples, deadline=None)(drawn(check))

    return decorate


def generator(seed):
    return torch.Generator().manual_seed(seed)


def truths(vocab, examples, width, rng, letters=None):
    """Truths of all lengths, the first of them empty, the last as long as there is room for."""
    words = [token for token in vocab.choosable if token != vocab.eos][:letters]
    targets = torch.tensor(words)[torch.randint(len(words), (examples, width), generator=rng)]
    longest = width if vocab.eos is None else width - 1
    lengths = torch.randint(longest + 1, (examples,), generator=rng)
    lengths[0], lengths[-1] = 0, longest
    positions = torch.arange(width)
    targets = torch.where(positions < lengths.unsqueeze(1), targets, vocab.pad)
    if vocab.eos is not None:
        targets = torch.where(positions == lengths.unsqueeze(1), vocab.eos, targets)
    return targets


def outputs_near(targets, vocab, rows, rng, width=None, letters=None):
    """Outputs that are random, near the truth or shifted against it; they end anywhere, and tokens follow the end."""
    examples, cells = targets.shape
    width = width or cells
    words = torch.tensor([token for token in vocab.choosable if token != vocab.eos][:letters])
    outputs = words[torch.randint(len(words), (examples, rows, width), generator=rng)]
    near = torch.full((examples, rows, width), vocab.pad)
    near[..., : min(width, cells)] = targets[:, None, :width]
    near[:, ::2] = near[:, ::2].roll(int(torch.randint(3, (1,), generator=rng)), -1)
    outputs = torch.where(torch.rand(outputs.shape, generator=rng) < 0.7, near, outputs)
    stop = vocab.pad if vocab.eos is None else vocab.eos
    outputs = torch.where(torch.rand(outputs.shape, generator=rng) < 0.5 / width, stop, outputs)
    outputs[:, 0, 0] = stop
    outputs[0, -1] = words[0]  # one word again and again
    return outputs


def branches_near(vocab, examples, width, candidates, rng, letters=None):
    """A batch whose limits may cut the truth, and branches at all its cells and outside of them, with any tokens."""
    targets = truths(vocab, examples, width, rng, letters)
    limits = torch.randint(1, width + 1, (examples,), generator=rng)
    limits[-1] = width
    prefix = outputs_near(targets, vocab, 3, rng, letters=letters)[:, 1]
    positions = torch.arange(width)
    prefix = torch.where(positions < limits.unsqueeze(1), prefix, vocab.pad)
    stop = vocab.pad if vocab.eos is None else vocab.eos
    ended = ((prefix == stop).cumsum(1) - (prefix == stop).long()) > 0
    prefix = prefix.masked_fill(ended, vocab.pad)
    cells = torch.arange(-1, width + 2).repeat(examples, 1)
    tokens = torch.randint(vocab.embeddings, (examples, width + 3, candidates), generator=rng)
    true = targets[torch.arange(examples).unsqueeze(1), cells.clamp(0, width - 1)]
    tokens[..., 0] = torch.where(true == vocab.pad, stop, true)
    valid = torch.ones_like(tokens, dtype=torch.bool)
    return Branches(prefix, cells, tokens, valid), Batch(None, targets, limits, vocab=vocab)


def plainly(function, *arguments):
    with using(Engine("plain")):
        return function(*arguments)


def by_kernels(function, *arguments):
    with using(Engine("triton")):
        return function(*arguments)


def best_tokens(hidden, weight, bias, forbidden=(), precision="float32", tiles=None):
    """The arg-max of `hidden @ weight.T + bias` over the tokens that are not `forbidden`, as the kernel finds it."""
    from searnn.fast.gpu.product import operand
    from searnn.fast.gpu.vocabulary import NOTHING, find_keys, readout

    table = readout(weight, bias, forbidden, precision, tiles)
    keys = torch.full((len(hidden),), NOTHING, dtype=torch.int64, device=hidden.device)
    counts = torch.full((1,), len(hidden), dtype=torch.int32, device=hidden.device)
    find_keys(operand(hidden, table.product), counts, table, keys)
    return (keys & 0x7FFFFFFF) ^ 0x7FFFFFFF


def written(branches, batch):
    """The valid branches: their indices, and the example, cell and tokens up to the branch of each."""
    valid = valid_cells(branches.prefix, batch)
    for b, c, k in branches.valid.nonzero().tolist():
        cell, token = int(branches.cells[b, c]), int(branches.tokens[b, c, k])
        if 0 <= cell < valid.shape[1] and valid[b, cell] and token in batch.vocab.choosable:
            yield (b, c, k), [*branches.prefix[b, :cell].tolist(), token]
