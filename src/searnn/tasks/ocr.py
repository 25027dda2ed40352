"""Reading handwritten words letter by letter: the OCR data set of Kassel and Taskar."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor

from searnn import rng
from searnn.data import letters as forms
from searnn.data import store
from searnn.data.batching import Examples, Packed, ShuffledBatches, make_examples, ordered_batches
from searnn.settings import Setting, check
from searnn.tasks.settings import Seed
from searnn.types import Batch, SearnnError, Vocabulary

Split = Annotated[Literal["fold", "words"], Setting("fold as in the paper, or words: no test word in training")]


class Ocr:
    """Handwritten words as sequences of 16 x 8 pixel letters to be labelled a to z; the length is known, so no EOS.

    **Mind what the set is:** 6,877 handwritten words, but only 55 distinct ones, and with `split="fold"` every test
    word is in training too, written by other hands. A model can learn the 55 words by heart, and does.

    `split="fold"` is the usual one: the test set is one of the ten folds, validation is a seeded tenth of the other
    words, and the rest is for training.

    `split="words"` never shows a test word in training or validation. The distinct words in alphabetical order are
    shuffled by the seed; a fifth of them, 11, is the test set, the next tenth, 6, is validation, and 38 remain for
    training, each with all its writings. `fold` 0 to 4 moves the start by 11 words, so that each word is in one test
    set. Sequence models fail on it: it is a warning, not a goal. In fold 0 of seed 0 no training word has a q.

    `seed` decides the split alone, so that runs with other seeds of training share it. `path` is another file in one
    of the two forms `letters.npz` and `letter.data.gz`; without it the data set is found or fetched.
    """

    name = "ocr"
    vocab = Vocabulary(size=26, pad=26, bos=27, eos=None)
    features: int | None = forms.PIXELS
    source_size: int | None = None
    metric = "error"
    higher_is_better = False

    def __init__(
        self,
        fold: Annotated[int, Setting("the fold that is the test set", ge=0, le=9)] = 0,
        split: Split = "fold",
        seed: Seed = 0,
        path: Annotated[
            str | Path | None, Setting("another file in the form of the public data", kind="file", name="data")
        ] = None,
    ) -> None:
        check(Ocr, locals())
        folds = forms.FOLDS if split == "fold" else 5
        if not 0 <= fold < folds:
            raise SearnnError(f"fold is {fold}, expected 0 to {folds - 1} with split {split!r}")
        data = forms.read(store.get("ocr")) if path is None else _given(Path(path))
        self.examples = _examples(data)
        parts = _by_fold(data, fold, seed) if split == "fold" else _by_word(self.words(), fold, seed)
        for part, rows in zip(("training", "validation", "test"), parts, strict=True):
            if not len(rows):
                raise SearnnError(f"no words are left for {part} with split {split!r} and fold {fold}: give more data")
        self.training, self.validation, self.testing = (self.examples.take(rows) for rows in parts)

    def train(self, batch_size: int, seed: int) -> ShuffledBatches:
        """Training batches; the seed is that of their order."""
        return ShuffledBatches(self.training, batch_size, seed)

    def valid(self, batch_size: int) -> Iterable[Batch]:
        """The validation words, once."""
        return ordered_batches(self.validation, batch_size)

    def test(self, batch_size: int) -> Iterable[Batch]:
        """The test words, once."""
        return ordered_batches(self.testing, batch_size)

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """`error`: wrong letters over letters; `word_error`: words with a wrong letter over words."""
        if len(outputs) != len(targets) or not targets:
            raise SearnnError(f"{len(outputs)} outputs for {len(targets)} words: expected one each, at least one")
        pairs = list(zip(outputs, targets, strict=True))
        wrong = [sum(a != b for a, b in zip(o, t, strict=False)) + abs(len(o) - len(t)) for o, t in pairs]
        letters = sum(len(target) for target in targets)
        return {"error": sum(wrong) / letters, "word_error": sum(count > 0 for count in wrong) / len(targets)}

    def show(self, tokens: Sequence[int]) -> str:
        """The word as letters."""
        return "".join(chr(ord("a") + token) for token in tokens if 0 <= token < forms.LETTERS)

    def words(self) -> list[str]:
        """Every word of the data set as letters, in its order."""
        labels = self.examples.targets.values.tolist()
        spans = zip(self.examples.targets.starts.tolist(), self.examples.targets.lengths.tolist(), strict=True)
        return [self.show(labels[start : start + length]) for start, length in spans]


def _given(path: Path) -> forms.Letters:
    """The letters of a user's own file."""
    try:
        return forms.read(path)
    except SearnnError as error:
        raise SearnnError(f"{error}; give a complete file, or none to have the data set found or fetched") from error


def _examples(data: forms.Letters) -> Examples:
    """All words; pixels become float32 zeros and ones once, so that a batch is one gather."""
    lengths = torch.from_numpy(data.word_lengths.astype(np.int64))
    starts = lengths.cumsum(0) - lengths
    pixels = torch.from_numpy(np.unpackbits(data.pixels_packed, axis=1)).float()
    labels = torch.from_numpy(data.labels.astype(np.int64))
    return make_examples(Packed(pixels, starts, lengths), Packed(labels, starts, lengths), Ocr.vocab)


def _by_fold(data: forms.Letters, fold: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The rows for training, validation and test: the fold is the test set, a tenth of the others validation."""
    in_test = torch.from_numpy(data.folds == fold)
    others, test = (~in_test).nonzero().squeeze(1), in_test.nonzero().squeeze(1)
    order = others[torch.randperm(len(others), generator=rng.generator(seed, "validation", fold))]
    count = max(1, len(others) // 10)
    return order[count:].sort().values, order[:count].sort().values, test


def _by_word(words: Sequence[str], fold: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The rows for training, validation and test, none of which share a word."""
    distinct = sorted(set(words))
    order = torch.randperm(len(distinct), generator=rng.generator(seed, "words"))
    fifth, tenth = len(distinct) // 5, -(-len(distinct) // 10)
    order = order.roll(-fold * fifth)
    number = {word: place for place, word in enumerate(distinct)}
    kinds = torch.tensor([number[word] for word in words])
    groups = (order[fifth + tenth :], order[fifth : fifth + tenth], order[:fifth])
    training, validation, test = (torch.isin(kinds, group).nonzero().squeeze(1) for group in groups)
    return training, validation, test
