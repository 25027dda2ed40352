"""The kernels of the oracles and of the costs in closed form, run by Triton's interpreter."""

import naive
import pytest
import torch
from kernel_cases import CASES, FREE, INSIDE, UNKNOWN, anything, branches_near, by_kernels, generator, plainly, written

from searnn.costs import EditDistance, Hamming
from searnn.fast import tokens
from searnn.fast import tokens as fast
from searnn.oracles import BestSuffix, CopyTarget, OptimalEdit, best_suffix
from searnn.types import Batch, Branches

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for machines without a GPU")

COSTS = [
    (Hamming, "copy", CopyTarget()),
    (EditDistance, "copy", CopyTarget()),
    (EditDistance, "optimal-edit", OptimalEdit()),
]
ORACLES = [
    CopyTarget(),
    OptimalEdit(),
    BestSuffix(),
    BestSuffix("bleu-1", "lin-och"),
    BestSuffix("bleu-1", "bahdanau", UNKNOWN),
    BestSuffix("bleu-4", "leblond"),
    BestSuffix("bleu-4", "bahdanau", UNKNOWN),
    BestSuffix("bleu-4", "lin-och", UNKNOWN),
    BestSuffix("gleu", unknown=UNKNOWN),
]


def some_cells(branches, count):
    """The branches at every so many cells: programs take long in the interpreter."""
    kept = torch.linspace(0, branches.cells.shape[1] - 1, count).long()
    return Branches(branches.prefix, branches.cells[:, kept], branches.tokens[:, kept], branches.valid[:, kept])


def check_closed_form(cost, name, oracle, vocab, width, letters, seed):
    branches, batch = branches_near(vocab, 3, width, 5, generator(seed), letters)
    normalised = seed % 2 == 0
    ours = cost(vocab, normalised=normalised)
    costs = by_kernels(ours.closed_form, name, branches, batch)
    assert torch.equal(costs, plainly(ours.closed_form, name, branches, batch))
    outputs = plainly(oracle.complete, branches, batch)
    count = naive.hamming if cost is Hamming else naive.edit
    for place, _ in written(branches, batch):
        truth = naive.strip(batch.targets[place[0]].tolist(), vocab)
        errors = count(naive.strip(outputs[place].tolist(), vocab), truth)
        assert float(costs[place]) == pytest.approx(errors / (max(1, len(truth)) if normalised else 1))


def check_completions(oracle, vocab, width, letters, seed, cells=None):
    branches, batch = branches_near(vocab, 3, width, 5 if cells is None else 16, generator(seed), letters)
    branches = branches if cells is None else some_cells(branches, cells)
    completed = by_kernels(oracle.complete, branches, batch)
    assert completed.dtype == torch.int64
    assert torch.equal(completed, plainly(oracle.complete, branches, batch))


@pytest.mark.parametrize(("cost", "name", "oracle"), COSTS)
def test_closed_forms_equal_the_plain_code_and_the_long_way(cost, name, oracle):
    for case in CASES[:3]:
        check_closed_form(cost, name, oracle, *case)


@pytest.mark.slow
@pytest.mark.parametrize(("cost", "name", "oracle"), COSTS)
def test_closed_forms_of_any_branches(cost, name, oracle):
    anything()(lambda vocab, width, letters, seed: check_closed_form(cost, name, oracle, vocab, width, letters, seed))()


@pytest.mark.parametrize("oracle", ORACLES[:2])
def test_completions_equal_the_plain_code(oracle):
    for case in CASES[:4]:
        check_completions(oracle, *case)


@pytest.mark.parametrize("oracle", ORACLES[2:])
def test_best_suffixes_equal_the_plain_code(oracle):
    vocab = FREE if oracle.measure == "bleu-1" else INSIDE
    check_completions(oracle, vocab, 12, 3, seed=7, cells=5)


@pytest.mark.slow
@pytest.mark.parametrize("oracle", ORACLES)
def test_completions_of_any_branches(oracle):
    suffix = isinstance(oracle, BestSuffix)
    drawn = anything((INSIDE, FREE), 15) if suffix else anything()
    cells = 4 if suffix else None
    drawn(lambda vocab, width, letters, seed: check_completions(oracle, vocab, width, letters, seed, cells))()


@pytest.mark.parametrize("oracle", [BestSuffix(), BestSuffix("bleu-4", "bahdanau", UNKNOWN), BestSuffix("gleu")])
def test_a_best_suffix_scores_best(oracle):
    """Of all suffixes, in lists; ties go to the shortest."""
    branches, batch = branches_near(INSIDE, 2, 9, 6, generator(8), letters=3)
    branches = some_cells(branches, 4)
    completed = by_kernels(oracle.complete, branches, batch)
    seen = 0
    for place, start in written(branches, batch):
        if start[-1] == INSIDE.eos:
            continue
        truth = naive.strip(batch.targets[place[0]].tolist(), INSIDE)
        room = int(batch.lengths[place[0]]) - len(start)
        suffixes = [truth[first:][:room] for first in range(len(truth), -1, -1)]
        if oracle.measure == "gleu":
            scores = [naive.naive_gleu(start + suffix, truth, 4) for suffix in suffixes]
        else:
            order = int(oracle.measure[-1])
            scores = [naive.naive_bleu(start + suffix, truth, oracle.definition, order, UNKNOWN) for suffix in suffixes]
        best = next(suffix for suffix, score in zip(suffixes, scores, strict=True) if score > max(scores) - 1e-9)
        assert naive.strip(completed[place].tolist(), INSIDE) == start + best
        seen += 1
    assert seen > 5


def test_scores_that_are_nearly_equal_are_equal(monkeypatch):
    branches, batch = branches_near(INSIDE, 2, 9, 6, generator(8), letters=3)
    branches = some_cells(branches, 4)
    exact = by_kernels(BestSuffix().complete, branches, batch)
    for module in (best_suffix, tokens):  # of the plain code, and as the door hands it on
        monkeypatch.setattr(module, "SAME", 0.1)
    loose = by_kernels(BestSuffix().complete, branches, batch)
    assert torch.equal(loose, plainly(BestSuffix().complete, branches, batch))
    assert not torch.equal(loose, exact)


def test_of_two_equally_near_positions_the_earlier_is_copied_from():
    targets = torch.tensor([[3, 4, 3, 5, 2, 0, 0]])  # b a is one edit away from a and from a b a, two from a b
    batch = Batch(None, targets, torch.tensor([7]), vocab=INSIDE)
    one = torch.ones(1, 1, 1, dtype=torch.long)
    branches = Branches(torch.tensor([[4, 4, 2, 0, 0, 0, 0]]), one[0], 3 * one, one == 1)
    assert by_kernels(OptimalEdit().complete, branches, batch).tolist() == [[[[4, 3, 4, 3, 5, 2, 0]]]]


@pytest.mark.parametrize(("width", "oracle"), [(32, ORACLES[1]), (62, ORACLES[1]), (31, ORACLES[3]), (62, ORACLES[5])])
def test_truths_up_to_a_word(width, oracle):
    branches, batch = branches_near(INSIDE, 1, width, 4, generator(width))
    branches = some_cells(branches, 3)
    assert torch.equal(by_kernels(oracle.complete, branches, batch), plainly(oracle.complete, branches, batch))


def test_beyond_a_word_the_plain_code_runs(monkeypatch):
    told = []
    monkeypatch.setattr(fast, "announce", told.append)
    branches, batch = branches_near(INSIDE, 2, 65, 3, generator(1))
    branches = some_cells(branches, 6)
    for oracle in ORACLES[1:4]:
        assert torch.equal(by_kernels(oracle.complete, branches, batch), plainly(oracle.complete, branches, batch))
    cost = EditDistance(INSIDE)
    for name in ("copy", "optimal-edit"):
        closed = by_kernels(cost.closed_form, name, branches, batch)
        assert torch.equal(closed, plainly(cost.closed_form, name, branches, batch))
    assert len(told) == 5
    assert all("the plain code" in line for line in told)
    told.clear()
    hamming, copied = Hamming(INSIDE), CopyTarget()  # these need no word
    assert torch.equal(by_kernels(copied.complete, branches, batch), plainly(copied.complete, branches, batch))
    closed = by_kernels(hamming.closed_form, "copy", branches, batch)
    assert torch.equal(closed, plainly(hamming.closed_form, "copy", branches, batch))
    assert told == ["copied truth: a kernel", "Hamming distance of a completion: a kernel"]
