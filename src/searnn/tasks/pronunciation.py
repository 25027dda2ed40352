"""Grapheme to phoneme: how English words are spoken, from the CMU pronouncing dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from searnn.data import store
from searnn.data.corpus import Pair
from searnn.data.lexicon import Lexicon
from searnn.data.lines import BadLines, read_lines
from searnn.data.store import Progress, quiet
from searnn.settings import Setting
from searnn.tasks.settings import Metric
from searnn.tasks.text import Part, TextTask, hashed, learn

VARIANT = re.compile(r"\(\d+\)$")


class Pronunciation(TextTask):
    """English words to phonemes: the CMU pronouncing dictionary, 126,000 words, split by word.

    A word is in the test part or in validation by a hash of it, one of 20 each, so the split is the same everywhere.
    Training has all pronunciations of its words, the other parts the first one. `stress` keeps the marks of stress on
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
        def parts() -> dict[str, Part]:
            path = store.get("cmudict", progress)
            return {part: _part(path, part, stress) for part in ("train", "valid", "test")}

        def lexicons(part: Part) -> tuple[Lexicon, Lexicon]:
            return learn(part, ("chars", "words"), progress)

        names = {"error": "per", "sequence_error": "wer"}
        super().__init__(parts, lexicons, text=text, metric=metric, names=names, progress=progress, **settings)

    def read(self, line: str) -> list[int]:
        """A word; the dictionary is in lower case."""
        return super().read(line.strip().lower())


def _part(path: Path, part: str, stress: bool) -> Part:
    def read(bad: BadLines) -> Iterable[Pair]:
        for number, word, phonemes, variant in _entries(path, bad):
            place = hashed(word, 20)
            if {18: "valid", 19: "test"}.get(place, "train") == part and not (variant and part != "train"):
                yield number, word, phonemes if stress else re.sub(r"\d", "", phonemes)

    return Part(path, read)


def _entries(path: Path, bad: BadLines) -> Iterator[tuple[int, str, str, bool]]:
    """Line number, word, phonemes, and whether it is another pronunciation of the same word."""
    for number, line, reason in read_lines(path):
        entry = (line or "").split("#")[0].strip()
        word, _, phonemes = entry.partition(" ")
        if not phonemes:
            bad.note(path, number, reason or "no phonemes")
            continue
        yield number, VARIANT.sub("", word), phonemes.strip(), bool(VARIANT.search(word))
