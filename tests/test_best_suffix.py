"""The best-suffix oracle against trying every suffix and counting n-grams in lists."""

from dataclasses import replace

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import naive_bleu, naive_gleu

from searnn.costs import SentenceBleu
from searnn.interfaces import Oracle
from searnn.oracles import best_suffix
from searnn.oracles.best_suffix import BestSuffix
from searnn.sequences.ends import seal, strip, valid_cells
from searnn.types import Batch, Branches, SearnnError, Vocabulary

UNKNOWN = 3
MEASURES = [
    *(BestSuffix(measure, name, UNKNOWN) for measure in ("bleu-1", "bleu-4") for name in ("leblond", "bahdanau")),
    BestSuffix("bleu-4", "lin-och"),
    BestSuffix("gleu", unknown=UNKNOWN),
]


def score(oracle, output, target):
    if oracle.measure == "gleu":
        return naive_gleu(output, target, 4)
    return naive_bleu(output, target, oracle.definition, int(oracle.measure[-1]), oracle.unknown)


def best_of_all(oracle, written, truth, room, vocab, width):
    """The finished output after trying every start, the shortest suffix first."""
    if written[-1] == vocab.eos:
        return written + [vocab.pad] * (width - len(written))
    best, chosen = -1.0, []
    for start in range(len(truth), -1, -1):
        suffix = truth[start:][:room]
        value = score(oracle, written + suffix, truth)
        if value > best + 1e-9:
            best, chosen = value, suffix
    row = written + chosen
    if len(chosen) < room:
        row = [*row, vocab.eos]
    return row + [vocab.pad] * (width - len(row))


def random_case(vocab, width, seed, cells=None):
    """A batch and branches at all (or some) cells with all choosable tokens: prefixes near the truth, that may end."""
    rng = torch.Generator().manual_seed(seed)
    letters = torch.tensor([token for token in vocab.choosable if token != vocab.eos])

    def words():
        return letters[torch.randint(len(letters), (4, width), generator=rng)]

    lengths = torch.randint(width, (4,), generator=rng)
    limits = torch.randint(1, width + 1, (4,), generator=rng)  # below, at and above what the truth needs
    positions = torch.arange(width)
    targets = torch.where(positions < lengths.unsqueeze(1), words(), vocab.pad)
    targets = torch.where(positions == lengths.unsqueeze(1), vocab.eos, targets)
    near = torch.where(targets == vocab.pad, vocab.eos, targets).roll(int(torch.randint(3, (1,), generator=rng)), 1)
    prefix = torch.where(torch.rand(4, width, generator=rng) < 0.6, near, words())
    prefix[0] = targets[0]
    batch = Batch(inputs=None, targets=targets, lengths=limits, vocab=vocab)
    prefix = seal(prefix, limits, vocab)
    cells = (positions if cells is None else cells).repeat(4, 1)
    tokens = torch.tensor(vocab.choosable).repeat(4, cells.shape[1], 1)
    valid = valid_cells(prefix, batch).gather(1, cells).unsqueeze(-1).expand_as(tokens)
    return Branches(prefix, cells, tokens, valid), batch


def check_all(oracle, branches, batch):
    vocab, width = batch.vocabulary, batch.targets.shape[1]
    outputs = oracle.complete(branches, batch)
    truths = strip(batch.targets, vocab)
    for b, c, k in branches.valid.nonzero().tolist():
        cell = int(branches.cells[b, c])
        written = [*branches.prefix[b, :cell].tolist(), int(branches.tokens[b, c, k])]
        room = int(batch.lengths[b]) - len(written)
        expected = best_of_all(oracle, written, truths[b], room, vocab, width)
        assert outputs[b, c, k].tolist() == expected
    over = ~branches.valid & (branches.cells >= 0).unsqueeze(-1)  # past the end: the prefix as it stands
    stands = branches.prefix[:, None, None].expand_as(outputs)
    assert torch.equal(outputs[over], stands[over])


@pytest.mark.parametrize("oracle", MEASURES)
def test_it_is_the_best_of_all_suffixes(oracle):
    @settings(max_examples=25, deadline=None)
    @given(st.sampled_from([FREE, INSIDE]), st.integers(1, 12), st.integers(0, 2**31))
    def check(vocab, width, seed):
        check_all(oracle, *random_case(vocab, width, seed))

    check()


@pytest.mark.parametrize("oracle", MEASURES)
@pytest.mark.parametrize("width", [40, 62, 63, 70, 130])
def test_long_sequences(oracle, width):
    large = Vocabulary(size=8, pad=8, bos=9, eos=0)
    check_all(oracle, *random_case(large, width, width, cells=torch.arange(1, width, width // 5)))


def completed(measure, written, truth):
    """What is completed after `written` on the one true sentence."""
    vocab = Vocabulary(size=9, pad=0, bos=1, eos=2)
    room = len(truth) + len(written) + 1
    batch = Batch(None, torch.tensor([[*truth, 2] + [0] * len(written)]), torch.tensor([room]), vocab=vocab)
    prefix = torch.tensor([written + [0] * (room - len(written))])
    cell, token = torch.tensor([[len(written) - 1]]), torch.tensor([[[written[-1]]]])
    branches = Branches(prefix, cell, token, torch.ones(1, 1, 1, dtype=torch.bool))
    return strip(BestSuffix(measure).complete(branches, batch)[0, 0], vocab)[0]


def test_the_measures_choose_differently():
    truth, written = [3, 4, 5, 3, 6], [3, 4, 7]
    assert completed("bleu-1", written, truth) == [*written, 5, 3, 6]
    assert completed("bleu-4", written, truth) == [*written, 3, 4, 5, 3, 6]
    assert completed("gleu", written, truth) == [*written, 4, 5, 3, 6]


def test_of_suffixes_as_good_the_shortest_is_taken():
    truth, written = [3, 4, 5, 3, 6], [5, 7, 7]  # (3 + 1) / (5 + 1) with two more tokens, (5 + 1) / (8 + 1) with five
    assert completed("bleu-1", written, truth) == [*written, 3, 6]


@pytest.mark.parametrize("measure", list(best_suffix.ORDERS))
@pytest.mark.parametrize("vocab", [FREE, INSIDE])
def test_padding_blocks_and_cells_outside(monkeypatch, measure, vocab):
    oracle = BestSuffix(measure)
    assert isinstance(oracle, Oracle)
    branches, batch = random_case(vocab, 7, seed=4)
    outputs = oracle.complete(branches, batch)
    more = torch.full((4, 60), vocab.pad)
    wider = replace(branches, prefix=torch.cat([branches.prefix, more], 1))
    wide = oracle.complete(wider, replace(batch, targets=torch.cat([batch.targets, more], 1)))
    assert torch.equal(wide[..., :7], outputs)
    assert (wide[..., 7:] == vocab.pad).all()
    monkeypatch.setattr(best_suffix, "BLOCK", 1)
    assert torch.equal(oracle.complete(branches, batch), outputs)
    for cell in (-1, 7, 9):
        outside = Branches(branches.prefix, torch.full((4, 1), cell), branches.tokens[:, :1], branches.valid[:, :1])
        completed = oracle.complete(outside, batch)
        whole = torch.where(batch.targets == vocab.pad, vocab.eos, batch.targets) if cell < 0 else branches.prefix
        expected = seal(whole, batch.lengths, vocab)[:, None, None].expand_as(completed)
        assert torch.equal(completed, expected)


def test_no_more_is_scored_at_once_than_a_block_but_for_one_example(monkeypatch):
    branches, batch = random_case(FREE, 7, seed=4)
    one = branches.tokens[0].numel() * 8  # of an example: branches times suffixes, the empty one among them
    for block, sizes in ((1, [1] * 4), (2 * one - 1, [1] * 4), (2 * one, [2, 2]), (3 * one, [3, 1]), (9 * one, [4])):
        monkeypatch.setattr(best_suffix, "BLOCK", block)
        assert [len(part.tokens) for part, _ in best_suffix._parts(branches, batch)] == sizes


@pytest.mark.parametrize("measure", list(best_suffix.ORDERS))
def test_on_the_truth_it_goes_on_with_the_truth(measure):
    truth = [3, 4, 5, 6, 7, 8]
    for end in range(1, 7):
        assert completed(measure, truth[:end], truth) == truth


@pytest.mark.usefixtures("as_users_call")
def test_wrong_settings_are_refused():
    with pytest.raises(SearnnError, match="bleu-1, bleu-4 or gleu"):
        BestSuffix("bleu-2")
    with pytest.raises(SearnnError, match="leblond, bahdanau or lin-och"):
        BestSuffix(definition="chen")
    batch = make_batch(KNOWN)
    tokens = torch.zeros(3, 1, 1, dtype=torch.long)
    with pytest.raises(SearnnError, match="eos"):
        BestSuffix().complete(Branches(batch.targets, tokens[..., 0], tokens, tokens == 0), batch)


@pytest.mark.parametrize("width", [6, 70])
def test_nothing_is_read_back_from_the_device(width):
    """On the meta device there are no values: whatever would wait for one fails."""
    branches, batch = random_case(INSIDE, width, seed=2)
    batch = batch.to("meta")
    branches = Branches(*(getattr(branches, field).to("meta") for field in ("prefix", "cells", "tokens", "valid")))
    for oracle in MEASURES:
        assert oracle.complete(branches, batch).shape == (*branches.tokens.shape, width)


@pytest.mark.gpu
@pytest.mark.parametrize("oracle", MEASURES)
@pytest.mark.parametrize("width", [12, 70])
def test_the_same_in_a_cuda_graph(oracle, width):
    branches, batch = random_case(INSIDE, width, seed=3)
    cost = SentenceBleu(INSIDE, "bahdanau", unknown=UNKNOWN)
    fields = ("prefix", "cells", "tokens", "valid")
    there = Branches(*(getattr(branches, field).to("cuda") for field in fields))
    moved = batch.to("cuda")
    graph = torch.cuda.CUDAGraph()
    cost(oracle.complete(there, moved), moved.targets)
    with torch.cuda.graph(graph):
        outputs = oracle.complete(there, moved)
        costs = cost(outputs, moved.targets)
    graph.replay()
    assert torch.equal(outputs.cpu(), oracle.complete(branches, batch))
    torch.testing.assert_close(costs.cpu(), cost(outputs.cpu(), batch.targets))
