"""Vocabularies, batches and scores for tests of the samplers, and the probabilities of scores by hand."""

from __future__ import annotations

import math

import torch
from cases import rng

from searnn.types import Batch, Vocabulary

FREE = Vocabulary(size=9, pad=0, bos=1, eos=2)
SPREAD = Vocabulary(size=9, pad=7, bos=3, eos=8)
KNOWN = Vocabulary(size=5, pad=5, bos=6)
VOCABULARIES = [FREE, SPREAD, KNOWN]


def make_batch(vocab: Vocabulary, seed: int = 0, examples: int = 4, width: int = 6) -> Batch:
    """Targets of every length, the first of them empty where the length is free."""
    choosable = [token for token in vocab.choosable if token != vocab.eos]
    rows = []
    for example in range(examples):
        length = example % width if vocab.eos is not None else example % width + 1
        picks = torch.randint(len(choosable), (length,), generator=rng(seed + example)).tolist()
        row = [choosable[pick] for pick in picks] + ([vocab.eos] if vocab.eos is not None else [])
        rows.append(row + [vocab.pad] * (width - len(row)))
    targets = torch.tensor(rows)
    lengths = torch.full((examples,), width) if vocab.eos is not None else (targets != vocab.pad).sum(1)
    return Batch(None, targets, lengths, vocab=vocab)


def make_scores(batch: Batch, seed: int = 0, cells: int | None = None) -> torch.Tensor:
    cells = cells or batch.targets.shape[1]
    return torch.randn(len(batch.targets), cells, batch.vocabulary.size, generator=rng(seed), dtype=torch.float64)


def probabilities(scores: list[float], vocab: Vocabulary) -> dict[int, float]:
    """The softmax over the choosable tokens."""
    total = sum(math.exp(scores[token]) for token in vocab.choosable)
    return {token: math.exp(scores[token]) / total for token in vocab.choosable}
