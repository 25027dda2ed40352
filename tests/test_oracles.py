"""Oracles against list code and brute force; closed forms of costs against completing and costing."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

import searnn.oracles
from searnn.config.registry import AXES
from searnn.costs import EditDistance, ExactMatch, Hamming
from searnn.interfaces import Oracle
from searnn.oracles import BestSuffix, ChunkOracle, CopyTarget, OptimalEdit
from searnn.sequences import join_suffix, seal, valid_cells
from searnn.types import Batch, Branches, SearnnError, Vocabulary

FREE = [Vocabulary(size=3, pad=3, bos=4, eos=0), Vocabulary(size=5, pad=0, bos=1, eos=2)]
KNOWN = [Vocabulary(size=3, pad=3, bos=4), Vocabulary(size=3, pad=0, bos=9)]
ORACLES = [CopyTarget(), OptimalEdit()]
OTHERS = ["bleu-1", "bleu-4", "gleu", "chunks"]  # with tests of their own for what they choose


def make_oracle(kind, vocab):
    """One of the others; of the tokens the first is O, then B and I of a type take turns."""
    if kind != "chunks":
        return BestSuffix(kind)
    letters = [token for token in vocab.choosable if token != vocab.eos]
    tags = ["O"] * (letters[-1] + 1)
    for number, letter in enumerate(letters[1:]):
        tags[letter] = ("B-a", "I-a")[number % 2]
    return ChunkOracle(tuple(tags))


def random_case(vocab, width, seed, room="any"):
    """A batch and all its branches: targets of any length, limits below, at and above it, prefixes that may end."""
    rng = torch.Generator().manual_seed(seed)
    letters = [token for token in vocab.choosable if token != vocab.eos]

    def words(count):
        return torch.tensor(letters)[torch.randint(len(letters), (count, width), generator=rng)]

    lengths = torch.randint(width + 1, (4,), generator=rng)
    limits = torch.randint(1, width + 1, (4,), generator=rng) if room == "any" else lengths.clamp(min=1)
    positions = torch.arange(width)
    end = vocab.pad if vocab.eos is None else vocab.eos
    targets = torch.where(positions < lengths.unsqueeze(1), words(4), vocab.pad)
    targets = torch.where(positions == lengths.unsqueeze(1), end, targets)
    prefix = torch.where(torch.rand(4, width, generator=rng) < 0.5, targets, words(4))
    prefix[0] = targets[0]
    batch = Batch(inputs=None, targets=targets, lengths=limits, vocab=vocab)
    prefix = seal(prefix, limits, vocab)
    cells = positions.repeat(4, 1)
    tokens = torch.arange(vocab.size).repeat(4, width, 1)
    chosen = torch.tensor([token in vocab.choosable for token in range(vocab.size)])
    valid = valid_cells(prefix, batch).unsqueeze(-1) & chosen
    return Branches(prefix, cells, tokens, valid), batch


def cut(row, vocab):
    kept = []
    for token in row:
        if token in (vocab.pad, vocab.eos):
            break
        kept.append(token)
    return kept


def each_valid(branches, batch):
    """Every valid branch as lists: its index, what is written, the truth, the room that is left."""
    width = batch.targets.shape[1]
    for b, c, k in branches.valid.nonzero().tolist():
        cell = int(branches.cells[b, c])
        written = [*branches.prefix[b, :cell].tolist(), int(branches.tokens[b, c, k])]
        truth = cut(batch.targets[b].tolist(), batch.vocabulary)
        yield (b, c, k), written, truth, min(int(batch.lengths[b]), width) - len(written)


def finished(written, suffix, room, vocab, width):
    """An output as it must stand: what is written, the suffix while there is room, EOS if room is left, then PAD."""
    if vocab.eos is not None and written[-1] == vocab.eos:
        row = written
    else:
        row = written + suffix[:room]
        if vocab.eos is not None and len(suffix) < room:
            row = [*row, vocab.eos]
    return row + [vocab.pad] * (width - len(row))


rooms = st.sampled_from(["any", "own"])
any_case = given(st.sampled_from(FREE + KNOWN), st.integers(1, 7), st.integers(0, 2**31), rooms)


@settings(max_examples=60, deadline=None)
@any_case
def test_copying_continues_the_truth_from_the_same_position(vocab, width, seed, room_kind):
    branches, batch = random_case(vocab, width, seed, room_kind)
    outputs = CopyTarget().complete(branches, batch)
    for index, written, truth, room in each_valid(branches, batch):
        assert outputs[index].tolist() == finished(written, truth[len(written) :], room, vocab, width)


def optimal_start(written, truth, room, exact):
    """The documented choice: least cost, then nearest to the same position, then the smaller."""

    def key(start):
        missing = len(truth) - start - room
        cost = Levenshtein.distance(written, truth[:start]) + (abs(missing) if exact else max(0, missing))
        return cost, abs(start - len(written)), start

    return min(range(len(truth) + 1), key=key)


@settings(max_examples=60, deadline=None)
@any_case
def test_optimal_completion_is_the_documented_one(vocab, width, seed, room_kind):
    branches, batch = random_case(vocab, width, seed, room_kind)
    outputs = OptimalEdit().complete(branches, batch)
    for index, written, truth, room in each_valid(branches, batch):
        if vocab.pad in written:
            continue  # a known length beyond the truth's own leaves holes in a reference prefix
        suffix = truth[optimal_start(written, truth, room, exact=vocab.eos is None) :]
        if vocab.eos is None:
            suffix = suffix + [vocab.choosable[0]] * room
        assert outputs[index].tolist() == finished(written, suffix, room, vocab, width)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([FREE[0], *KNOWN]), st.integers(1, 4), st.integers(0, 2**31), rooms)
def test_no_completion_at_all_is_better_than_the_optimal_one(vocab, width, seed, room_kind):
    branches, batch = random_case(vocab, width, seed, room_kind)
    outputs = OptimalEdit().complete(branches, batch)
    letters = [token for token in vocab.choosable if token != vocab.eos]
    for index, written, truth, room in each_valid(branches, batch):
        output = outputs[index].tolist()
        assert output[: len(written)] == written
        if vocab.pad in written:
            continue
        lengths = [0] if written[-1] == vocab.eos else [room] if vocab.eos is None else range(room + 1)
        completions = [suffix for count in lengths for suffix in product(letters, repeat=count)]
        best = min(Levenshtein.distance(cut([*written, *suffix], vocab), truth) for suffix in completions)
        assert Levenshtein.distance(cut(output, vocab), truth) == best


def test_every_oracle_is_here_under_a_name_of_its_own():
    """Closed forms are found by the oracle's name: two of one name would be taken for each other."""
    found = [*ORACLES, BestSuffix(), ChunkOracle()]
    assert {type(oracle).__name__ for oracle in found} == set(searnn.oracles.__all__)
    assert {type(oracle) for oracle in found} == {*AXES["oracle"].values()}
    assert all(isinstance(oracle, Oracle) for oracle in found)


@pytest.mark.parametrize("kind", OTHERS)
def test_the_others_keep_what_is_written_and_leave_the_truth_as_it_is(kind):
    @settings(max_examples=40, deadline=None)
    @given(st.sampled_from(FREE + KNOWN if kind == "chunks" else FREE), st.integers(1, 7), st.integers(0, 2**31), rooms)
    def check(vocab, width, seed, room_kind):
        branches, batch = random_case(vocab, width, seed, room_kind)
        oracle = make_oracle(kind, vocab)
        outputs = oracle.complete(branches, batch)
        for index, written, truth, room in each_valid(branches, batch):
            if vocab.pad in written:
                continue
            output = outputs[index].tolist()
            assert output[: len(written)] == written
            assert output == finished(written, cut(output, vocab)[len(written) :], room, vocab, width)
            if written == truth[: len(written)] and len(truth) <= len(written) + room:
                assert output == finished(written, truth[len(written) :], room, vocab, width)
        for cost in (Hamming(vocab), EditDistance(vocab)):
            assert cost.closed_form(oracle.name, branches, batch) is None

    check()


@pytest.mark.parametrize("cost", [Hamming(), Hamming(normalised=True), EditDistance(), EditDistance(normalised=False)])
@pytest.mark.parametrize("oracle", ORACLES)
def test_closed_forms_equal_completing_and_costing(cost, oracle):
    @settings(max_examples=120, deadline=None)
    @any_case
    def check(vocab, width, seed, room_kind):
        branches, batch = random_case(vocab, width, seed, room_kind)
        bound = replace(cost, vocab=vocab)
        costs = bound.closed_form(oracle.name, branches, batch)
        if isinstance(cost, Hamming) and oracle.name != "copy":
            assert costs is None
        else:
            assert torch.equal(costs, bound(oracle.complete(branches, batch), batch.targets))  # masked ones too
        assert bound.closed_form("another", branches, batch) is None
        other = replace(batch, vocab=replace(vocab, bos=vocab.bos + 7))
        assert bound.closed_form(oracle.name, branches, other) is None

    check()


@pytest.mark.parametrize("width", [40, 70])
@pytest.mark.parametrize("oracle", ORACLES)
def test_closed_forms_of_long_sequences(width, oracle):
    branches, batch = random_case(FREE[1], width, seed=3)
    some = torch.arange(0, width, 9)
    branches = Branches(branches.prefix, branches.cells[:, some], branches.tokens[:, some], branches.valid[:, some])
    cost = EditDistance(batch.vocabulary)
    costs = cost.closed_form(oracle.name, branches, batch)
    assert torch.equal(costs, cost(oracle.complete(branches, batch), batch.targets))
    assert costs[branches.valid].unique().numel() > 3


def test_the_oracles_differ_and_each_is_what_it_says():
    vocab = Vocabulary(size=5, pad=5, bos=6, eos=0)
    batch = Batch(None, torch.tensor([[1, 2, 3, 4, 0, 5]]), torch.tensor([6]), vocab=vocab)
    prefix = torch.tensor([[2, 1, 1, 1, 1, 1]])  # the first letter was left out
    tokens = torch.tensor([[[3, 0]]])
    branches = Branches(prefix, torch.tensor([[1]]), tokens, torch.ones(1, 1, 2, dtype=torch.bool))
    assert CopyTarget().complete(branches, batch)[0, 0].tolist() == [[2, 3, 3, 4, 0, 5], [2, 0, 5, 5, 5, 5]]
    assert OptimalEdit().complete(branches, batch)[0, 0].tolist() == [[2, 3, 4, 0, 5, 5], [2, 0, 5, 5, 5, 5]]
    cost = EditDistance(vocab, normalised=False)
    assert cost.closed_form("copy", branches, batch).tolist() == [[[2.0, 3.0]]]
    assert cost.closed_form("optimal-edit", branches, batch).tolist() == [[[1.0, 3.0]]]


def test_of_two_starts_as_near_and_as_good_the_smaller_is_taken():
    vocab = Vocabulary(size=4, pad=4, bos=5, eos=0)
    batch = Batch(None, torch.tensor([[1, 2, 1, 2, 3, 0, 4]]), torch.tensor([7]), vocab=vocab)
    written = Branches(
        torch.tensor([[2, 1, 4, 4, 4, 4, 4]]), torch.tensor([[2]]), torch.tensor([[[2]]]), torch.ones(1, 1, 1).bool()
    )  # 212 is one step from both 12 and 1212, two from 121
    assert OptimalEdit().complete(written, batch)[0, 0, 0].tolist() == [2, 1, 2, 1, 2, 3, 0]


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(KNOWN), st.integers(1, 7), st.integers(0, 2**31))
def test_copying_is_optimal_where_the_length_is_the_true_one(vocab, width, seed):
    branches, batch = random_case(vocab, width, seed, room="own")
    copied, optimal = (oracle.complete(branches, batch) for oracle in ORACLES)
    exists = branches.valid & (batch.targets != vocab.pad).any(1)[:, None, None]
    assert torch.equal(copied[exists], optimal[exists])


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("vocab", FREE + KNOWN)
def test_rows_as_examples_padding_and_nothing_written(oracle, vocab):
    assert isinstance(oracle, Oracle)
    branches, batch = random_case(vocab, 5, seed=11)
    batch = replace(batch, lengths=batch.lengths.clamp(max=5))
    outputs = oracle.complete(branches, batch)
    rows = torch.arange(4).repeat_interleave(5 * vocab.size)
    alone = Branches(
        branches.prefix[rows],
        branches.cells.unsqueeze(-1).expand_as(branches.tokens).reshape(-1, 1),
        branches.tokens.reshape(-1, 1, 1),
        branches.valid.reshape(-1, 1, 1),
    )
    own = replace(batch, targets=batch.targets[rows], lengths=batch.lengths[rows])
    assert torch.equal(oracle.complete(alone, own).view_as(outputs), outputs)

    more = torch.full((4, 2), vocab.pad)
    wider = replace(branches, prefix=torch.cat([branches.prefix, more], 1))
    wide_batch = replace(batch, targets=torch.cat([batch.targets, more], 1))
    wide = oracle.complete(wider, wide_batch)
    assert torch.equal(wide[..., :5], outputs)
    assert (wide[..., 5:] == vocab.pad).all()
    cost = EditDistance(vocab)
    narrow_costs = cost.closed_form(oracle.name, branches, batch)
    assert torch.equal(cost.closed_form(oracle.name, wider, wide_batch), narrow_costs)

    for cell in (-1, 5, 9):  # masked, or a row in which nothing is written yet
        cells, tokens = torch.full((4, 1), cell), branches.tokens[:, :1]
        masked = Branches(branches.prefix, cells, tokens, torch.zeros_like(tokens, dtype=torch.bool))
        completed = oracle.complete(masked, batch)
        assert cost.closed_form(oracle.name, masked, batch).shape == (4, 1, vocab.size)
        if cell == -1 and vocab.eos is not None:
            whole = torch.where(batch.targets == vocab.pad, vocab.eos, batch.targets)
            assert torch.equal(completed[:, 0, 0], seal(whole, batch.lengths, vocab))


def test_past_the_truth_a_suffix_of_known_length_has_nothing_however_wide_the_batch():
    vocab = KNOWN[0]
    for pads in range(3):
        batch = Batch(None, torch.tensor([[1, 2, 1] + [3] * pads]), torch.tensor([3]), vocab=vocab)
        cells, tokens, starts = torch.tensor([[0]]), torch.tensor([[[0, 0, 0]]]), torch.tensor([[[1, 2, 3]]])
        joined = join_suffix(batch.targets, cells, tokens, starts, batch)[0, 0]
        assert joined[:, :3].tolist() == [[0, 2, 1], [0, 1, 3], [0, 3, 3]]
        assert (joined[:, 3:] == vocab.pad).all()


@pytest.mark.parametrize("vocab", [FREE[0], KNOWN[0]])
@pytest.mark.parametrize("width", [5, 70])
def test_nothing_is_read_back_from_the_device(vocab, width):
    """On the meta device there are no values: whatever would wait for one fails."""
    branches, batch = random_case(vocab, width, seed=2)
    batch = batch.to("meta")
    branches = Branches(*(getattr(branches, field).to("meta") for field in ("prefix", "cells", "tokens", "valid")))
    others = [make_oracle(kind, vocab) for kind in (OTHERS if vocab.eos is not None else ["chunks"])]
    for oracle in [*ORACLES, *others]:
        outputs = oracle.complete(branches, batch)
        for cost in (Hamming(vocab, normalised=True), EditDistance(vocab), ExactMatch(vocab)):
            assert cost(outputs, batch.targets).shape == (4, width, vocab.size)
            if oracle not in ORACLES or not hasattr(cost, "closed_form"):
                continue
            if oracle.name == "copy" or isinstance(cost, EditDistance):
                assert cost.closed_form(oracle.name, branches, batch).device.type == "meta"


def test_wrong_tags_are_refused_by_the_oracles_own_name():
    with pytest.raises(SearnnError, match=r"^ChunkOracle got the tag 'X' for token 1"):
        ChunkOracle(("O", "X"))
