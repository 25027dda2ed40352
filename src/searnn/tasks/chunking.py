"""Chunking: the phrases of a sentence, on the data of CoNLL-2000, judged by the F1 of whole chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from searnn import rng
from searnn.data import store
from searnn.data.batching import Examples, join, pack
from searnn.data.conll import read_columns
from searnn.data.lexicon import Lexicon
from searnn.data.store import Progress, quiet
from searnn.sequences.chunks import check_tags, chunk_counts
from searnn.tasks.common.lexicons import LexiconTask, load_lexicons
from searnn.tasks.common.metrics import check_counts
from searnn.tasks.settings import Seed, Test, Train, Valid
from searnn.types import SearnnError

Sentence = list[tuple[str, ...]]


class Chunking(LexiconTask):
    """Words with parts of speech to chunk tags: CoNLL-2000, 8,936 sentences for training and 2,012 for test.

    A word is read as the sum of four embeddings: of itself in lower case, of its part of speech, of its last three
    letters and of its shape; those seen once in training are unknown. The length is known, so there is no EOS.
    Validation is a seeded tenth of the training sentences. `train`, `valid` and `test` are files of the same three
    columns in place of the public ones. Metrics: `f1` of the chunks of all sentences as seqeval and conlleval count
    them, `precision`, `recall`, and `accuracy` of the tags.
    """

    name = "chunking"
    metric = "f1"
    higher_is_better = True

    def __init__(
        self,
        *,
        train: Train | None = None,
        valid: Valid | None = None,
        test: Test | None = None,
        seed: Seed = 0,
        text: Path | None = None,
        progress: Progress = quiet,
    ) -> None:
        if train is None and (valid or test):
            raise SearnnError("files for validation or test were given without --train: give sentences to train on too")
        super().__init__()
        self.seed, self.progress = seed, progress
        self._given = {"train": train, "valid": valid, "test": test}
        if text is not None:
            self.keep(*load_lexicons(text))
        else:
            sentences = self._sentences("train")
            counts = Counter(unit for sentence in sentences for word in sentence for unit in _units(word))
            source = Lexicon.of(sorted(unit for unit, count in counts.items() if count > 1), "words")
            # The tags are a fixed set: one that only the test data has cannot be learned, but it must be counted.
            files = [path for paths in self.files.values() for path in paths]
            tags = sorted({word[-1] for path in files for sentence in _read(path) for word in sentence} | {"O"})
            self.keep(source, Lexicon.of(tags, "words", unknown="O", ended=False))
        self.tags = self.target.units
        check_tags("the task chunking", self.tags)

    @property
    def knowledge(self) -> dict[str, Any]:
        """What costs and oracles may want to know of the vocabulary."""
        return {"tags": self.tags}

    def make(self, split: str) -> Examples:
        """Encode a split."""
        sentences = self._sentences(split)
        known = self.target.ids
        tags = {word[-1] for sentence in sentences for word in sentence}
        if not tags <= known.keys():
            raise SearnnError(f"the {split} data has the tag {min(tags - known.keys())!r}, unknown to the model")
        sources = pack([self._encode(sentence) for sentence in sentences])
        targets = pack([[known[word[-1]] for word in sentence] for sentence in sentences])
        return join(sources, targets, self.vocab)

    def names(self) -> Iterable[str]:
        """The splits that there are."""
        return [split for split, paths in self.files.items() if paths or split == "valid"]

    @cached_property
    def files(self) -> Mapping[str, list[Path]]:
        """Where the sentences are: the user's own, or found, or fetched, when something of them is wanted."""
        if self._given["train"] is None:
            folder = store.folder("conll2000", self.progress)
            return {"train": [folder / "train.txt"], "valid": [], "test": [folder / "test.txt"]}
        return {name: [Path(path).expanduser() for path in paths or ()] for name, paths in self._given.items()}

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """`f1`, `precision` and `recall` of the chunks, from 0 to 1, and `accuracy` of the tags."""
        check_counts(outputs, targets)
        counts = chunk_counts(self._block(outputs), self._block(targets), self.vocab, self.tags)
        correct, predicted, true = (int(count.sum()) for count in counts)
        right = sum(a == b for o, t in zip(outputs, targets, strict=True) for a, b in zip(o, t, strict=False))
        return {
            "f1": 2 * correct / max(1, predicted + true),
            "precision": correct / max(1, predicted),
            "recall": correct / max(1, true),
            "accuracy": right / sum(len(target) for target in targets),
        }

    def read(self, line: str) -> Tensor:
        """A sentence of word/POS, with spaces between them."""
        words = [tuple(word.rsplit("/", 1)) for word in line.split()]
        if not words or any(len(word) != 2 or not all(word) for word in words):
            raise SearnnError("expected words with their parts of speech, as in The/DT pound/NN fell/VBD")
        return self._encode([(*word, "") for word in words])

    def _encode(self, sentence: Sentence) -> Tensor:
        known = self.source.ids
        return torch.tensor([[known.get(unit, self.source.unknown) for unit in _units(word)] for word in sentence])

    def _block(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        packed = pack([[*tokens, self.vocab.pad] for tokens in sequences])
        return packed.padded(torch.arange(len(sequences)), int(packed.lengths.max()), self.vocab.pad)

    def _sentences(self, split: str) -> list[Sentence]:
        """The sentences of a split; where no file is given for validation, it is a tenth of the training sentences."""
        if split == "test" or (split == "valid" and self.files["valid"]):
            if not self.files[split]:
                raise SearnnError(f"there is no {split} data: give a file with --{split}")
            return [sentence for path in self.files[split] for sentence in _read(path)]
        sentences = [sentence for path in self.files["train"] for sentence in _read(path)]
        if self.files["valid"]:
            return sentences
        order = torch.randperm(len(sentences), generator=rng.generator(self.seed, "validation"))
        count = max(1, len(sentences) // 10)
        rows = order[:count] if split == "valid" else order[count:]
        if not len(rows):
            raise SearnnError("there is one sentence in all: give more to train on")
        return [sentences[row] for row in sorted(rows.tolist())]

    def source_units(self, tokens: Sequence[Sequence[int]]) -> list[str]:
        """The words of a sentence, the first of the columns that they are read as."""
        return [self.source.units[columns[0]].removeprefix("word=") for columns in tokens]

    def show_source(self, tokens: Sequence[Sequence[int]]) -> str:
        """The words with spaces between them."""
        return " ".join(self.source_units(tokens))

    def read_target(self, text: str) -> list[int]:
        """The tags, with spaces between them."""
        return self.target.encode(text)


def _units(word: tuple[str, ...]) -> tuple[str, ...]:
    """What a word is read as: the word, its part of speech, its last letters and its shape."""
    form, speech = word[0], word[1]
    shape = "".join("X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else "." for c in form)
    short = "".join(c for number, c in enumerate(shape) if not number or shape[number - 1] != c)
    return f"word={form.lower()}", f"pos={speech}", f"end={form.lower()[-3:]}", f"shape={short}"


def _read(path: Path) -> list[Sentence]:
    sentences = read_columns(path)
    if len(sentences[0][0]) != 3:
        raise SearnnError(f"{path} has {len(sentences[0][0])} columns, expected word, part of speech and chunk tag")
    return sentences
