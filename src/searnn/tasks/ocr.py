"""Reading handwritten words letter by letter: the OCR data set of Kassel and Taskar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from rapidfuzz.distance import Hamming
from torch import Tensor

from searnn import rng
from searnn.data import letters as forms
from searnn.data import store
from searnn.data.batching import Examples, Packed, make_examples
from searnn.settings import Setting, check
from searnn.tasks.common.metrics import check_counts, sequence_error
from searnn.tasks.common.splits import SplitTask
from searnn.tasks.settings import Seed
from searnn.types import SearnnError, Vocabulary

Split = Annotated[Literal["fold", "words"], Setting("fold as in the paper, or words: no test word in training")]


class Ocr(SplitTask):
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

    def __init__(
        self,
        fold: Annotated[int, Setting("the fold that is the test set", ge=0, le=9)] = 0,
        split: Split = "fold",
        seed: Seed = 0,
        path: Annotated[
            str | Path | None, Setting("another file in the form of the public data", kind="file", name="data")
        ] = None,
    ) -> None:
        super().__init__()
        check(Ocr, locals())
        folds = forms.FOLDS if split == "fold" else 5
        if not 0 <= fold < folds:
            raise SearnnError(f"fold is {fold}, expected 0 to {folds - 1} with split {split!r}")
        data = forms.read(store.get("ocr")) if path is None else _given(Path(path))
        self.whole = _examples(data)
        self.rows = _by_fold(data, fold, seed) if split == "fold" else _by_word(self.words(), fold, seed)
        for name, rows in zip(("training", "validation", "test"), self.rows.values(), strict=True):
            if not len(rows):
                raise SearnnError(f"no words are left for {name} with split {split!r} and fold {fold}: give more data")

    def make(self, split: str) -> Examples:
        """The words of a split."""
        return self.whole.take(self.rows[split])

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """`error`: wrong letters over letters; `word_error`: words with a wrong letter over words."""
        check_counts(outputs, targets)
        wrong = sum(map(Hamming.distance, outputs, targets))
        return {"error": wrong / sum(map(len, targets)), "word_error": sequence_error(outputs, targets)}

    def show(self, tokens: Sequence[int]) -> str:
        """The word as letters."""
        return "".join(chr(ord("a") + token) for token in tokens if 0 <= token < forms.LETTERS)

    def words(self) -> list[str]:
        """Every word of the data set as letters, in its order."""
        labels = self.whole.targets.values.tolist()
        spans = zip(self.whole.targets.starts.tolist(), self.whole.targets.lengths.tolist(), strict=True)
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


def _by_fold(data: forms.Letters, fold: int, seed: int) -> dict[str, Tensor]:
    """The rows of each split: the fold is the test set, a tenth of the others validation."""
    in_test = torch.from_numpy(data.folds == fold)
    others, test = (~in_test).nonzero().squeeze(1), in_test.nonzero().squeeze(1)
    order = others[torch.randperm(len(others), generator=rng.generator(seed, "validation", fold))]
    count = max(1, len(others) // 10)
    return {"train": order[count:].sort().values, "valid": order[:count].sort().values, "test": test}


def _by_word(words: Sequence[str], fold: int, seed: int) -> dict[str, Tensor]:
    """The rows of each split, none of which share a word."""
    distinct = sorted(set(words))
    order = torch.randperm(len(distinct), generator=rng.generator(seed, "words"))
    fifth, tenth = len(distinct) // 5, -(-len(distinct) // 10)
    order = order.roll(-fold * fifth)
    number = {word: place for place, word in enumerate(distinct)}
    kinds = torch.tensor([number[word] for word in words])
    groups = {"train": order[fifth + tenth :], "valid": order[fifth : fifth + tenth], "test": order[:fifth]}
    return {split: torch.isin(kinds, group).nonzero().squeeze(1) for split, group in groups.items()}
