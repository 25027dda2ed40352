"""The kernels of the costs and oracles on a GPU at real sizes: equal to the plain code, no waiting, in a CUDA graph."""

from dataclasses import replace

import pytest
import torch
from kernel_cases import by_kernels, generator, outputs_near, plainly, truths

from searnn.costs import EditDistance, Gleu, Hamming, SentenceBleu
from searnn.oracles import BestSuffix, CopyTarget, OptimalEdit
from searnn.sequences import ngrams
from searnn.sequences.ends import seal
from searnn.types import Batch, Branches, Vocabulary

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu

UNKNOWN = 3
# Examples, cells, candidates, positions, and the vocabulary.
SIZES = {
    "ocr": (64, 15, 26, 15, Vocabulary(size=26, pad=26, bos=27)),
    "spelling": (128, 11, 43, 10, Vocabulary(size=43, pad=43, bos=44, eos=0)),
    "nmt": (64, 25, 25, 25, Vocabulary(size=22_822, pad=0, bos=1, eos=2)),
    "long": (16, 9, 10, 62, Vocabulary(size=500, pad=0, bos=1, eos=2)),
}


class Case:
    """Outputs, branches and a batch of one size on the GPU; `copy_` fills them with another case's values."""

    def __init__(self, name, seed=0):
        examples, cells, candidates, width, self.vocab = SIZES[name]
        rng, letters = generator(seed), 12  # few words, so that n-grams match
        targets = truths(self.vocab, examples, width, rng, letters)
        outputs = outputs_near(targets, self.vocab, cells * candidates, rng, letters=letters)
        limits = torch.randint(1, width + 1, (examples,), generator=rng)
        prefix = seal(outputs_near(targets, self.vocab, 3, rng, letters=letters)[:, 1], limits, self.vocab)
        places = torch.randint(0, width, (examples, cells), generator=rng).sort(1).values
        tokens = torch.randint(0, self.vocab.embeddings, (examples, cells, candidates), generator=rng)
        tokens[..., ::2] %= letters
        self.outputs = outputs.view(examples, cells, candidates, width).cuda()
        self.branches = Branches(prefix.cuda(), places.cuda(), tokens.cuda(), torch.ones_like(tokens).bool().cuda())
        self.batch = Batch(None, targets.cuda(), limits.cuda(), vocab=self.vocab)

    def tensors(self):
        branches, batch = self.branches, self.batch
        return [self.outputs, branches.prefix, branches.cells, branches.tokens, batch.targets, batch.lengths]

    def copy_(self, other):
        for mine, theirs in zip(self.tensors(), other.tensors(), strict=True):
            mine.copy_(theirs)

    def everything(self):
        """Each cost, closed form, count and completion, by name."""
        vocab, branches, batch = self.vocab, self.branches, self.batch
        results = {}
        definitions = (("leblond", 4), ("bahdanau", 4), ("lin-och", 2))
        bleus = [SentenceBleu(definition=name, order=order, unknown=UNKNOWN) for name, order in definitions]
        for cost in (
            Hamming(),
            Hamming(normalised=True),
            EditDistance(),
            EditDistance(normalised=False),
            *bleus,
            Gleu(),
        ):
            results[repr(cost)] = replace(cost, vocab=vocab)(self.outputs, batch.targets)
        for cost, oracle in ((Hamming, "copy"), (EditDistance, "copy"), (EditDistance, "optimal-edit")):
            results[f"{cost.name} after {oracle}"] = cost(vocab).closed_form(oracle, branches, batch)
        rows = self.outputs.flatten(1, 2)
        results["counts"] = ngrams.count_matches(rows, batch.targets, vocab, 4, UNKNOWN)
        oracles = [CopyTarget(), OptimalEdit()]
        if vocab.eos is not None:
            oracles += [BestSuffix(), BestSuffix("bleu-4", "bahdanau", UNKNOWN), BestSuffix("bleu-4", "lin-och")]
            oracles += [BestSuffix("gleu")]
        return results | {repr(oracle): oracle.complete(branches, batch) for oracle in oracles}


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, values in found.items():
        if "Bleu" in name or "Gleu" in name:
            torch.testing.assert_close(values, expected[name], rtol=1e-5, atol=1e-6)
        else:
            assert torch.equal(values, expected[name]), name


@pytest.mark.parametrize("name", SIZES)
def test_equal_to_the_plain_code_without_waiting(name):
    case = Case(name)
    by_kernels(case.everything)  # compiled here
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = by_kernels(case.everything)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert_same(found, plainly(case.everything))


@pytest.mark.parametrize("name", SIZES)
def test_the_same_in_a_cuda_graph_with_other_values(name):
    case, other = Case(name), Case(name, seed=1)
    by_kernels(case.everything)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = by_kernels(case.everything)
    case.copy_(other)
    graph.replay()
    assert_same(found, plainly(other.everything))
    before = plainly(Case(name).everything)
    assert not any(torch.equal(values, before[key]) for key, values in found.items())


def test_kernels_run_by_themselves(monkeypatch):
    from searnn.fast.gpu import tokens

    calls = []
    launch = tokens.launch
    monkeypatch.setattr(tokens, "launch", lambda *given, **settings: (calls.append(1), launch(*given, **settings)))
    case = Case("ocr")
    EditDistance(case.vocab)(case.outputs, case.batch.targets)
    assert calls == [1]
    plainly(EditDistance(case.vocab), case.outputs, case.batch.targets)
    assert calls == [1]
