"""Chunks against seqeval, and their oracle against every completion there is."""

from dataclasses import replace
from functools import lru_cache
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from seqeval.metrics import f1_score
from seqeval.metrics.sequence_labeling import get_entities

from searnn.costs.chunk_f1 import ChunkF1
from searnn.interfaces import Cost, Oracle
from searnn.oracles import CopyTarget
from searnn.oracles.chunk_oracle import ChunkOracle
from searnn.sequences.chunks import chunk_counts
from searnn.sequences.ends import seal, valid_cells
from searnn.types import Batch, Branches, SearnnError, Vocabulary

TAGS = ("O", "B-a", "I-a", "B-b", "I-b")
MIXED = ("I-b", "O", "B-a", "O", "O", "I-a", "B-b")  # tokens 1, 3 and 4 may be PAD, BOS and EOS
KNOWN = [(Vocabulary(size=5, pad=5, bos=6), TAGS), (Vocabulary(size=7, pad=1, bos=3), MIXED)]
FREE = [(Vocabulary(size=6, pad=6, bos=7, eos=5), TAGS), (Vocabulary(size=7, pad=1, bos=9, eos=3), MIXED)]
BARE = [(Vocabulary(size=3, pad=3, bos=4), ("O", "I-a", "I-b"))]  # chunks that touch cannot be told apart
CLOSED = [(Vocabulary(size=4, pad=4, bos=5), TAGS[1:])]  # nothing but chunks

kinds = st.sampled_from(KNOWN + FREE)
seeds = st.integers(0, 2**31)


def words_of(vocab):
    return torch.tensor([token for token in vocab.choosable if token != vocab.eos])


def iob2(rows, tags):
    """The same chunks, each begun by B: what I-x starts becomes B-x where there is one."""
    fixed = rows.clone()
    for row in fixed:
        for kind, start, _ in get_entities([tags[token] for token in row]):
            if f"B-{kind}" in tags:
                row[start] = tags.index(f"B-{kind}")
    return fixed


def random_case(vocab, tags, width, seed, *, strict=True, own_room=True, count=4):
    """A batch and all its branches; prefixes are near the truth. Not `strict`: chunks of the truth may begin by I."""
    rng = torch.Generator().manual_seed(seed)
    words = words_of(vocab)
    targets = words[torch.randint(len(words), (count, width), generator=rng)]
    for cell in range(1, width):  # chunks of several cells are rare otherwise
        inner = torch.tensor([tags.index(f"I-{tags[token][2:]}") if tags[token] != "O" else token
                              for token in targets[:, cell - 1].tolist()])  # fmt: skip
        targets[:, cell] = torch.where(torch.rand(count, generator=rng) < 0.4, inner, targets[:, cell])
    targets = iob2(targets, tags) if strict else targets
    lengths = torch.randint(width + 1, (count,), generator=rng)
    lengths[0] = width
    limits = lengths.clamp(min=1) if own_room else torch.randint(1, width + 1, (count,), generator=rng)
    positions = torch.arange(width)
    noise = words[torch.randint(len(words), (count, width), generator=rng)]
    prefix = torch.where(torch.rand(count, width, generator=rng) < 0.6, targets, noise)
    end = vocab.pad if vocab.eos is None else vocab.eos
    targets = torch.where(positions < lengths.unsqueeze(1), targets, vocab.pad)
    targets = torch.where(positions == lengths.unsqueeze(1), end, targets)
    batch = Batch(None, targets, limits, vocab=vocab)
    prefix = seal(prefix, limits, vocab)
    tokens = torch.arange(vocab.size).repeat(count, width, 1)
    chosen = torch.tensor([token in vocab.choosable for token in range(vocab.size)])
    valid = valid_cells(prefix, batch).unsqueeze(-1) & chosen
    return Branches(prefix, positions.repeat(count, 1), tokens, valid), batch


def as_tags(row, vocab, tags):
    """What stands before EOS or PAD, as strings."""
    kept = []
    for token in row:
        if token in (vocab.pad, vocab.eos):
            break
        kept.append(tags[token])
    return tuple(kept)


@lru_cache(maxsize=100_000)
def entities(names):
    return frozenset(get_entities(list(names)))


def f1(output, target):
    """F1 of two tuples of tags by the definition."""
    ours, theirs = entities(output), entities(target)
    if not ours and not theirs:
        return 1.0
    return 2 * len(ours & theirs) / (len(ours) + len(theirs))


@settings(max_examples=60, deadline=None)
@given(kinds, st.integers(1, 9), seeds, st.sampled_from([(), (3,), (2, 3)]))
def test_counts_and_costs_equal_seqeval(kind, width, seed, axes):
    vocab, tags = kind
    rng = torch.Generator().manual_seed(seed)
    ids = torch.tensor([*vocab.choosable, vocab.pad] + words_of(vocab).tolist() * 3)
    targets = ids[torch.randint(len(ids), (4, width), generator=rng)]
    outputs = ids[torch.randint(len(ids), (4, *axes, width), generator=rng)]
    keep = torch.rand(outputs.shape, generator=rng) < 0.8
    outputs = torch.where(keep, targets.view(4, *[1] * len(axes), width), outputs)
    targets[1, 0] = vocab.pad
    counts = chunk_counts(outputs, targets, vocab, tags)
    costs = ChunkF1(vocab, tags)(outputs, targets)
    assert costs.shape == outputs.shape[:-1]
    assert all(count.shape == costs.shape for count in counts)
    for b in range(4):
        truth = as_tags(targets[b].tolist(), vocab, tags)
        found = zip(*(count[b].reshape(-1).tolist() for count in counts), costs[b].reshape(-1).tolist(), strict=True)
        for row, (correct, predicted, true, cost) in zip(outputs[b].view(-1, width).tolist(), found, strict=True):
            ours = as_tags(row, vocab, tags)
            assert predicted == len(entities(ours))
            assert true == len(entities(truth))
            assert correct == len(entities(ours) & entities(truth))
            assert cost == pytest.approx(1 - f1(ours, truth), abs=1e-6)
            if predicted and true:  # else seqeval's convention is another
                rows = [[*some, *["O"] * (width - len(some))] for some in (truth, ours)]  # it asks for the same length
                assert cost == pytest.approx(1 - f1_score(rows[:1], rows[1:]), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_of_counts_give_the_f1_of_a_corpus(seed):
    vocab, tags = KNOWN[0]
    branches, batch = random_case(vocab, tags, 12, seed, strict=False, count=60)
    correct, predicted, true = (count.sum() for count in chunk_counts(branches.prefix, batch.targets, vocab, tags))
    rows = [[list(as_tags(row, vocab, tags)) for row in some.tolist()] for some in (batch.targets, branches.prefix)]
    for truth, output in zip(*rows, strict=True):
        output += ["O"] * (len(truth) - len(output))  # an empty sentence has room for one cell
        truth += ["O"] * (len(output) - len(truth))
    assert 0.1 < 2 * correct / (predicted + true) < 0.9
    assert float(2 * correct / (predicted + true)) == pytest.approx(f1_score(*rows))


def test_sentences_without_chunks_and_chunks_that_touch():
    vocab, tags = KNOWN[0]

    def cost(output, target):
        ids = [[tags.index(tag) for tag in text.split()] for text in (output, target)]
        return ChunkF1(vocab, tags)(*(torch.tensor([row]) for row in ids)).tolist()[0]

    assert cost("O O O", "O O O") == 0
    assert cost("O B-a O", "O O O") == 1
    assert cost("O O O", "I-a I-a O") == 1
    assert cost("I-a I-a O", "B-a I-a O") == 0  # the tags differ, the chunks do not
    assert cost("B-a B-a O", "B-a I-a O") == 1
    assert cost("I-a I-b O", "B-a B-b O") == 0
    assert cost("B-b I-a O", "B-b B-a B-a") == pytest.approx(0.2)


def best_scores(truth, lengths, names):
    """The best F1 that can be reached from every way to begin an output of one of `lengths` cells."""
    best = {}
    for output in (output for length in lengths for output in product(names, repeat=length)):
        score = f1(output, truth)
        for written in range(len(output) + 1):
            best[output[:written]] = max(best.get(output[:written], 0.0), score)
    return best


def check_optimal(vocab, tags, branches, batch):
    """Every valid branch is kept as it is, and completed as well as any completion does."""
    completed = ChunkOracle(tags).complete(branches, batch)
    assert torch.equal(completed, seal(completed, batch.lengths, vocab))
    outputs = completed.tolist()
    names = [tags[token] for token in words_of(vocab).tolist()]
    tables = {}
    for b, c, k in branches.valid.nonzero().tolist():
        cell = int(branches.cells[b, c])
        written = [*branches.prefix[b, :cell].tolist(), int(branches.tokens[b, c, k])]
        assert outputs[b][c][k][: len(written)] == written
        if vocab.pad in written:
            continue  # a known length beyond the truth's own leaves holes in a prefix
        truth = as_tags(batch.targets[b].tolist(), vocab, tags)
        output = as_tags(outputs[b][c][k], vocab, tags)
        room = int(batch.lengths[b])
        assert len(output) <= room
        if written[-1] == vocab.eos:
            assert output == as_tags(written, vocab, tags)
            continue
        if b not in tables:
            tables[b] = best_scores(truth, [room] if vocab.eos is None else range(1, room + 1), sorted(set(names)))
        assert f1(output, truth) == tables[b][as_tags(written, vocab, tags)], (written, truth, output)


@settings(max_examples=150, deadline=None)
@given(kinds, st.sampled_from([5, 4, 3, 2, 1]), seeds, st.booleans())
def test_no_completion_is_better(kind, width, seed, own_room):
    vocab, tags = kind
    check_optimal(vocab, tags, *random_case(vocab, tags, width, seed, own_room=own_room))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KNOWN + FREE + BARE), st.sampled_from([5, 4, 3, 2, 1]), seeds, st.booleans())
def test_no_completion_is_better_where_chunks_begin_by_an_inner_tag(kind, width, seed, own_room):
    vocab, tags = kind
    check_optimal(vocab, tags, *random_case(vocab, tags, width, seed, own_room=own_room, strict=False))


@settings(max_examples=40, deadline=None)
@given(kinds, st.integers(1, 14), seeds, st.booleans(), st.booleans())
def test_never_worse_than_copying_and_the_same_where_nothing_is_wrong(kind, width, seed, strict, own_room):
    vocab, tags = kind
    branches, batch = random_case(vocab, tags, width, seed, strict=strict, own_room=own_room)
    cost = ChunkF1(vocab, tags)
    copied, ours = (oracle.complete(branches, batch) for oracle in (CopyTarget(), ChunkOracle(tags)))
    assert (cost(ours, batch.targets) <= cost(copied, batch.targets))[branches.valid].all()
    if own_room:
        right = replace(branches, prefix=batch.targets)
        hit = branches.valid & (right.tokens == batch.targets.unsqueeze(-1))
        assert torch.equal(ChunkOracle(tags).complete(right, batch)[hit], CopyTarget().complete(right, batch)[hit])


def test_better_than_copying_where_a_chunk_is_lost():
    vocab, tags = KNOWN[0]

    def complete(target, written):
        target, written = ([tags.index(tag) for tag in text.split()] for text in (target, written))
        batch = Batch(None, torch.tensor([target]), torch.tensor([len(target)]), vocab=vocab)
        prefix = torch.tensor([written + [0] * (len(target) - len(written))])
        cells, tokens = torch.tensor([[len(written) - 1]]), torch.tensor([[[written[-1]]]])
        outputs = ChunkOracle(tags).complete(Branches(prefix, cells, tokens, tokens >= 0), batch)
        return " ".join(tags[token] for token in outputs[0, 0, 0].tolist()[len(written) :])

    truth = "B-a I-a I-a B-b I-b"
    assert complete(truth, "B-a I-a") == "I-a B-b I-b"
    assert complete(truth, "I-a I-a") == "I-a B-b I-b"  # the same chunk
    assert complete(truth, "O I-a") == "O B-b I-b"
    assert complete(truth, "B-a B-a") == "O B-b I-b"
    assert complete(truth, "B-b I-a") == "O B-b I-b"
    assert complete(truth, "O") == "O O B-b I-b"
    assert complete(truth, "O O O B-b") == "I-b"
    assert complete(truth, "O O B-b I-b") == "O"
    assert complete("O I-a I-a", "O") == "I-a I-a"
    assert complete("O I-a I-a", "I-a") == "B-a I-a"  # I-a would go on with what is open
    assert complete("O I-a I-a", "I-b") == "I-a I-a"
    assert complete("O I-b I-b", "I-b") == "B-b I-b"


def test_without_an_outer_tag_the_truth_is_copied():
    vocab, tags = CLOSED[0]
    branches, batch = random_case(vocab, tags, 8, seed=1)
    outputs = ChunkOracle(tags).complete(branches, batch)
    assert torch.equal(outputs, CopyTarget().complete(branches, batch))
    for seed in range(20):
        branches, batch = random_case(vocab, tags, 8, seed, strict=False, own_room=False)
        outputs = ChunkOracle(tags).complete(branches, batch)
        assert torch.equal(outputs, seal(outputs, batch.lengths, vocab))


@pytest.mark.parametrize(("vocab", "tags"), KNOWN + FREE)
def test_rows_as_examples_padding_and_nothing_written(vocab, tags):
    oracle = ChunkOracle(tags)
    branches, batch = random_case(vocab, tags, 5, seed=3, own_room=False)
    outputs = oracle.complete(branches, batch)
    rows = torch.arange(4).repeat_interleave(5 * vocab.size)
    cells = branches.cells.unsqueeze(-1).expand_as(branches.tokens).reshape(-1, 1)
    alone = Branches(branches.prefix[rows], cells, branches.tokens.reshape(-1, 1, 1), branches.valid.reshape(-1, 1, 1))
    own = replace(batch, targets=batch.targets[rows], lengths=batch.lengths[rows])
    assert torch.equal(oracle.complete(alone, own).view_as(outputs), outputs)
    more = torch.full((4, 2), vocab.pad)
    wide_batch = replace(batch, targets=torch.cat([batch.targets, more], 1))
    wide = oracle.complete(replace(branches, prefix=torch.cat([branches.prefix, more], 1)), wide_batch)
    assert torch.equal(wide[..., :5], outputs)
    assert (wide[..., 5:] == vocab.pad).all()
    _, loose = random_case(vocab, tags, 5, seed=3, strict=False, count=20)
    roomy = replace(loose, lengths=torch.full((20,), 5))
    for cell, shift in ((-1, 0), (-1, 50), (5, 0), (9, 0)):  # with nothing written the token is not read
        tokens = torch.arange(vocab.size).repeat(20, 1, 1) + shift
        at = Branches(loose.targets, torch.full((20, 1), cell), tokens, torch.zeros_like(tokens, dtype=torch.bool))
        assert torch.equal(oracle.complete(at, roomy), CopyTarget().complete(at, roomy))


@pytest.mark.parametrize(("vocab", "tags"), [KNOWN[0], FREE[0]])
def test_nothing_is_read_back_from_the_device(vocab, tags):
    """On the meta device there are no values: whatever would wait for one fails."""
    branches, batch = random_case(vocab, tags, 5, seed=2)
    branches = Branches(*(getattr(branches, field).to("meta") for field in ("prefix", "cells", "tokens", "valid")))
    batch = batch.to("meta")
    outputs = ChunkOracle(tags).complete(branches, batch)
    assert ChunkF1(vocab, tags)(outputs, batch.targets).shape == (4, 5, vocab.size)


@pytest.mark.gpu
@pytest.mark.parametrize(("vocab", "tags"), KNOWN + FREE)
def test_the_same_in_a_cuda_graph(vocab, tags):
    branches, batch = random_case(vocab, tags, 7, seed=2, strict=False)
    expected = ChunkOracle(tags).complete(branches, batch)
    costs = ChunkF1(vocab, tags)(expected, batch.targets)
    branches = Branches(*(getattr(branches, field).cuda() for field in ("prefix", "cells", "tokens", "valid")))
    batch = batch.to("cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = ChunkOracle(tags).complete(branches, batch)
        found = ChunkF1(vocab, tags)(outputs, batch.targets)
    graph.replay()
    assert torch.equal(outputs.cpu(), expected)
    torch.testing.assert_close(found.cpu(), costs)


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("make", [lambda tags: ChunkF1(tags=tags), lambda tags: ChunkOracle(tags=tags)])
def test_tags_that_are_none(make):
    for tags, message in [
        (("O", "E-a"), "'E-a' for token 1, expected O, B-x or I-x .*: rename"),
        (("B-", "O"), "'B-' for token 0"),
        (("O", "I"), "'I' for token 1"),
        (("O", ""), "'' for token 1"),
        (("O", 3), "3 for token 1"),
        (["O", "B-a"], "expected a tuple"),
        ("O", "expected a tuple"),
    ]:
        with pytest.raises(SearnnError, match=message):
            make(tags)


def test_tags_must_fit_the_vocabulary():
    vocab, tags = KNOWN[0]
    branches, batch = random_case(vocab, tags, 3, seed=0)
    assert isinstance(ChunkF1(), Cost)
    assert isinstance(ChunkOracle(), Oracle)
    assert (ChunkF1.name, ChunkOracle.name) == ("chunk-f1", "chunk-f1")
    for given_tags, message in [((), r"got none: give tags="), (TAGS[:4], "got 4 tags"), (TAGS * 2, "got 10 tags")]:
        with pytest.raises(SearnnError, match=message):
            ChunkF1(vocab, given_tags)(branches.prefix, batch.targets)
        with pytest.raises(SearnnError, match=message):
            ChunkOracle(given_tags).complete(branches, batch)
    with pytest.raises(SearnnError, match="ChunkF1 has no vocabulary"):
        ChunkF1(tags=tags)(branches.prefix, batch.targets)
