"""Spelling correction: the paper's second task. Clean text, random symbols written over it, to be put right."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from searnn import rng
from searnn.data import store
from searnn.data.batching import Examples, Packed, ShuffledBatches, join
from searnn.data.lexicon import Lexicon
from searnn.data.lines import BadLines, good_lines
from searnn.data.store import Progress, quiet
from searnn.settings import Setting, check
from searnn.tasks.common import metrics
from searnn.tasks.common.splits import SplitTask, hashed
from searnn.tasks.settings import Paths, Seed, SkipBadLines, Test, Train, Valid
from searnn.types import Batch, SearnnError

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789,.!?# "  # with EOS the paper's 43 tokens; # is every other character
OTHER = re.compile(r"[^a-z0-9,.!? ]")
WINDOW = 10
SPARE = 2  # cells beyond the window: EOS, and one symbol too many

Lines = Callable[[BadLines], Iterable[str]]


class Spelling(SplitTask):
    """English text with random symbols over it, to be put right: ten characters at a time.

    The text is lower-cased; what is not a letter, a digit, a space or one of `,.!?` becomes `#`. An example is the
    first ten characters of a line as in the paper; with `windows` training has all consecutive windows of ten. Each
    character is replaced with probability `noise` by a symbol drawn evenly from all 42: anew at each epoch in training,
    and as `seed` says in validation and test.

    `train`, `valid` and `test` are text files; without `valid` or `test` a tenth of the training lines each is kept for
    them. Without `train` the text is, with `benchmark`, that of `SEARNN_DATA/spelling`, where the evaluation is on
    sentences of the One Billion Word benchmark and the training text is other English; else the American Standard
    Version of 1901. By default it is the first where that is there.
    """

    name = "spelling"

    def __init__(
        self,
        noise: Annotated[float, Setting("chance that a character is replaced", ge=0, le=1)] = 0.3,
        windows: Annotated[
            bool, Setting("train on all windows of ten characters, not only the first of a line")
        ] = False,
        *,
        benchmark: Annotated[
            bool | None, Setting("the text with the One Billion Word benchmark, not the Bible")
        ] = None,
        train: Train | None = None,
        valid: Valid | None = None,
        test: Test | None = None,
        seed: Seed = 0,
        skip_bad_lines: SkipBadLines = False,
        progress: Progress = quiet,
    ) -> None:
        check(Spelling, locals())
        self.lexicon = Lexicon.of(LETTERS, "chars", unknown="#")
        self.vocab = self.lexicon.vocab
        self.source_size: int | None = self.lexicon.size
        self.noise, self.windows, self.seed, self.skip_bad_lines = noise, windows, seed, skip_bad_lines
        self.is_public = train is None  # the few lines of it that are not UTF-8 are left out
        super().__init__()
        if train is None and (valid or test):
            raise SearnnError("files for validation or test were given without --train: give text to train on too")
        self._find_splits = (
            partial(_public, benchmark, progress) if train is None else partial(_own, train, valid, test)
        )

    @cached_property
    def splits(self) -> Mapping[str, Lines]:
        """Where the lines of each split come from: found, or fetched, when something of it is wanted."""
        return self._find_splits()

    def names(self) -> Iterable[str]:
        """The splits of the text."""
        return self.splits

    def make(self, split: str) -> Examples:
        """Cut a split; its sources have no noise in training, and their fixed noise in the other splits."""
        bad = BadLines(self.skip_bad_lines or self.is_public)
        targets = self._pack(self._cut(self.splits[split](bad), split == "train" and self.windows))
        bad.close(len(targets.lengths))
        if not len(targets.lengths):
            raise SearnnError(f"the {split} text has no lines: give more text, or a file of it with --{split}")
        self.notes += [told for told in [bad.summary()] if told]
        noisy = self._disturb(targets.values, rng.generator(self.seed, "noise", split))
        sources = Packed(targets.values if split == "train" else noisy, targets.starts, targets.lengths - 1)
        return join(sources, targets, self.vocab, WINDOW + SPARE)

    def train(self, batch_size: int, seed: int) -> ShuffledBatches:
        """Training batches, with fresh noise at every step; the seed is that of their order and noise."""
        return ShuffledBatches(self.examples("train"), batch_size, seed, change=self._make_noisy)

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """`error`: edit distance of all outputs over the length of all targets; `sequence_error`: those not right."""
        return {
            "error": metrics.edit_error(outputs, targets),
            "sequence_error": metrics.sequence_error(outputs, targets),
        }

    def units(self, tokens: Sequence[int]) -> list[str]:
        """The characters of an output."""
        return [LETTERS[token] for token in tokens]

    def show(self, tokens: Sequence[int]) -> str:
        """An output as text."""
        return self.lexicon.decode(tokens)

    source_units, show_source = units, show  # inputs are written in the same characters

    def read(self, line: str) -> list[int]:
        """A line to predict from as tokens."""
        tokens = self.lexicon.encode(plain(line))
        if not tokens:
            raise SearnnError("it is empty")
        return tokens

    def cells(self, lengths: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        """How many cells outputs for sources of these lengths may take."""
        return lengths + SPARE

    @staticmethod
    def _cut(lines: Iterable[str], windows: bool) -> Iterator[str]:
        for line in lines:
            text = plain(line)
            ends = range(0, len(text), WINDOW) if windows else (0,)
            yield from (text[start : start + WINDOW] for start in ends)

    def _pack(self, texts: Iterable[str]) -> Packed:
        """Texts end to end in one byte per character, each with EOS, which stands as a line's end until then."""
        table = np.zeros(256, dtype=np.uint8)
        table[[ord(letter) for letter in (*LETTERS, "\n")]] = np.arange(len(LETTERS) + 1)
        values = table[np.frombuffer("".join(text + "\n" for text in texts).encode("ascii"), dtype=np.uint8)]
        ends = np.flatnonzero(values == self.vocab.eos) + 1
        starts = np.concatenate([[0], ends])[:-1]
        return Packed(torch.from_numpy(values), torch.from_numpy(starts), torch.from_numpy(ends - starts))

    def _disturb(self, values: Tensor, draw: torch.Generator) -> Tensor:
        """The same tokens, each replaced with the probability of the noise; padding may be hit too, and is not read."""
        hit = torch.rand(values.shape, generator=draw) < self.noise
        other = torch.randint(len(LETTERS), values.shape, generator=draw, dtype=values.dtype)
        return torch.where(hit, other, values)

    def _make_noisy(self, batch: Batch, draw: torch.Generator) -> Batch:
        return replace(batch, inputs=batch.inputs._replace(values=self._disturb(batch.inputs.values, draw)))

    def read_target(self, text: str) -> list[int]:
        """A true output as tokens."""
        return self.lexicon.encode(plain(text))


def plain(line: str) -> str:
    """A line in the 42 symbols."""
    return OTHER.sub("#", line.strip().lower())


def has_benchmark() -> bool:
    """Whether the text with the benchmark is there: it is taken where nothing is said."""
    return store.find("spelling") is not None


def _public(benchmark: bool | None, progress: Progress) -> dict[str, Lines]:
    """The lines of each split of a public text."""
    if not (has_benchmark() if benchmark is None else benchmark):
        return _own([store.get("asv", progress)])
    # A fifth of the benchmark's sentences chooses the model, the others judge it; neither is trained on.
    folder = store.folder("spelling", progress)
    judging = [folder / "lm1b.heldout-10-11.txt"]
    held = {plain(line) for line in _lines(judging)(BadLines(skip=True))}
    return {
        "train": _lines([folder / "brown.txt", folder / "abc.txt"], lambda line: plain(line) not in held),
        "valid": _lines(judging, lambda line: hashed(line.lower(), 5) == 0),
        "test": _lines(judging, lambda line: hashed(line.lower(), 5) != 0),
    }


def _own(train: Paths, valid: Paths | None = None, test: Paths | None = None) -> dict[str, Lines]:
    """The lines of each split of one's own files; what has no file of its own is a tenth of the training text."""
    held = {number: name for number, name, paths in ((0, "valid", valid), (1, "test", test)) if paths is None}

    def share(name: str) -> Lines:
        return _lines(train, lambda line: held.get(hashed(line.lower(), 10), "train") == name)

    return {
        "train": share("train"),
        "valid": share("valid") if valid is None else _lines(valid),
        "test": share("test") if test is None else _lines(test),
    }


def _lines(paths: Paths, wanted: Callable[[str], bool] = lambda _: True) -> Lines:
    """The wanted lines of files; blank ones stand between paragraphs and are passed over."""

    def read(bad: BadLines) -> Iterator[str]:
        for path in map(Path, paths):
            lines = (line for _, line in good_lines(path.expanduser(), bad))
            yield from (line for line in lines if line.strip() and wanted(line.strip()))

    return read
