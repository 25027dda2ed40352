"""Grapheme to phoneme: how English words are spoken, from the CMU pronouncing dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from searnn.data import store
from searnn.data.corpus import Pair
from searnn.data.lexicon import Lexicon
from searnn.data.lines import BadLines, good_lines
from searnn.data.store import Progress, quiet
from searnn.settings import Setting
from searnn.tasks.common.splits import hashed
from searnn.tasks.common.text import Split, TextTask, learn
from searnn.tasks.settings import Metric

VARIANT = re.compile(r"\(\d+\)$")


class Pronunciation(TextTask):
    """English words to phonemes: the CMU pronouncing dictionary, 126,000 words, split by word.

    A word is in the test split or in validation by a hash of it, one of 20 each, so the split is the same everywhere.
    Training has all pronunciations of its words, the other splits the first one. `stress` keeps the marks of stress on
    the vowels. Metrics: `per`, phoneme errors over phonemes, and `wer`, words with an error.
    """

    name = "g2p"

    def __init__(
        self,
        stress: Annotated[bool, Setting("keep the marks of stress on phonemes")] = False,
        *,
        metric: Metric = "per",
        text: Path | None = None,
        progress: Progress = quiet,
        **settings: Any,
    ) -> None:
        def splits() -> dict[str, Split]:
            path = store.get("cmudict", progress)
            return {split: _split(path, split, stress) for split in ("train", "valid", "test")}

        def lexicons(split: Split) -> tuple[Lexicon, Lexicon]:
            return learn(split, ("chars", "words"), progress)

        names = {"error": "per", "sequence_error": "wer"}
        super().__init__(splits, lexicons, text=text, metric=metric, names=names, progress=progress, **settings)

    def read(self, line: str) -> list[int]:
        """A word; the dictionary is in lower case."""
        return super().read(line.strip().lower())


def _split(path: Path, split: str, stress: bool) -> Split:
    def read(bad: BadLines) -> Iterable[Pair]:
        for number, word, phonemes, variant in _entries(path, bad):
            place = hashed(word, 20)
            if {18: "valid", 19: "test"}.get(place, "train") == split and not (variant and split != "train"):
                yield number, word, phonemes if stress else re.sub(r"\d", "", phonemes)

    return Split(path, read)


def _entries(path: Path, bad: BadLines) -> Iterator[tuple[int, str, str, bool]]:
    """Line number, word, phonemes, and whether it is another pronunciation of the same word."""
    for number, line in good_lines(path, bad):
        word, _, phonemes = line.split("#")[0].strip().partition(" ")
        if phonemes:
            yield number, VARIANT.sub("", word), phonemes.strip(), bool(VARIANT.search(word))
        else:
            bad.note(path, number, "no phonemes")
