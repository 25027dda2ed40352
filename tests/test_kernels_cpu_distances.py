"""Distances on a CPU in one compiled pass: against the plain code and rapidfuzz."""

import pytest
import torch
from rapidfuzz.distance import Levenshtein

from kernel_cases import FREE, INSIDE, KNOWN, generator, outputs_near, truths
from searnn.costs import EditDistance, Hamming
from searnn.engine import Engine, using
from searnn.sequences.ends import strip
from searnn.types import Vocabulary

pytest.importorskip("numba")
distances = pytest.importorskip("searnn.kernels.cpu_distances")
VOCABULARIES = {"known": KNOWN, "free": FREE, "inside": INSIDE}


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("kind", [Hamming, EditDistance])
@pytest.mark.parametrize("width", [1, 9, 62])
@pytest.mark.parametrize("vocab", VOCABULARIES)
def test_equal_to_the_plain_code(vocab, width, kind, normalised):
    vocab = VOCABULARIES[vocab]
    rng = generator(width)
    targets = truths(vocab, 6, width, rng)
    outputs = outputs_near(targets, vocab, 40, rng)
    outputs[:, 1::3] = torch.where(torch.arange(width) < width // 2, outputs[:, ::3][:, :13], outputs[:, 1::3])
    cost = kind(vocab, normalised=normalised)
    with using(Engine("plain")):
        expected = cost(outputs.view(6, 8, 5, width), targets)
    edits = kind is EditDistance
    found = distances.count_errors(outputs.view(6, 8, 5, width), targets, vocab, edits, normalised, torch.float32)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)
    assert found.unique().numel() > 1


def test_equal_to_rapidfuzz():
    vocab, rng = Vocabulary(4, 4, 5, 0), generator(0)
    targets = truths(vocab, 20, 12, rng)
    outputs = outputs_near(targets, vocab, 30, rng, width=17)
    found = distances.count_errors(outputs, targets, vocab, True)
    truth = strip(targets, vocab)
    expected = [[Levenshtein.distance(row, truth[i]) for row in strip(outputs[i], vocab)] for i in range(20)]
    assert found.tolist() == expected


def test_shapes_and_strange_tokens():
    vocab = Vocabulary(3, 3, 4)
    targets = torch.tensor([[0, 1, 2]])
    outputs = torch.tensor([[0, 99, -7]])
    assert distances.count_errors(outputs, targets, vocab, True).tolist() == [2]
    assert distances.count_errors(outputs, targets, vocab, False).tolist() == [2]
    none = torch.zeros(1, 0, 3, dtype=torch.long)
    assert distances.count_errors(none, targets, vocab, True).shape == (1, 0)
    turned = torch.tensor([[[0, 2], [1, 2], [2, 2]]]).transpose(1, 2)  # not contiguous
    assert distances.count_errors(turned, targets, vocab, True).tolist() == [[0, 2]]
