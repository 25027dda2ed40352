"""Translation: the paper's third task, on its own data, on other public data, or on any parallel files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from searnn.data import store
from searnn.data.corpus import Pair
from searnn.data.lexicon import Lexicon
from searnn.data.lines import BadLines, good_lines, read_lines
from searnn.data.store import Progress, quiet
from searnn.settings import Setting, check
from searnn.tasks.common.splits import hashed
from searnn.tasks.common.text import Split, TextTask, file_split, file_splits, learn
from searnn.tasks.settings import MaxVocab, Metric, MinCount, Pieces, Test, TokenLevel, Train, Valid
from searnn.types import SearnnError

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")  # of the vocabularies that come with IWSLT
NAMES = {
    "multi30k": {"train": "train", "valid": "valid", "test": "test_2016"},
    "iwslt14": {"train": "train.de-en", "valid": "valid.de-en", "test": "test.de-en"},
}


class Translation(TextTask):
    """Translation between German and English, or of any parallel files, judged by BLEU.

    `corpus` is "multi30k" (29,000 captions), "iwslt14" (talks, as the paper has them; with their own word lists) or
    "tatoeba" (170,000 short sentences, split by English sentence so that none is in two splits; no source of the
    validation or test pairs is in training). With `train` and
    `valid` files of your own take its place. Levels and limits as for `Pairs`.
    """

    name = "translation"

    def __init__(
        self,
        corpus: Annotated[Literal["multi30k", "iwslt14", "tatoeba"], Setting("the public data")] = "multi30k",
        direction: Annotated[Literal["de-en", "en-de"], Setting("from which language to which")] = "de-en",
        *,
        train: Train | None = None,
        valid: Valid | None = None,
        test: Test | None = None,
        level: TokenLevel = "words",
        min_count: MinCount = 2,
        max_vocab: MaxVocab = None,
        pieces: Pieces = 8000,
        text: Path | None = None,
        metric: Metric = "bleu",
        progress: Progress = quiet,
        **settings: Any,
    ) -> None:
        check(Translation, locals())
        if (train is None) != (valid is None) or (train is None and test is not None):
            raise SearnnError("files of your own need --train and --valid, and may have --test")
        self.tokenised = not (train is None and corpus == "tatoeba")
        limits: dict[str, Any] = {"min_count": min_count, "max_size": max_vocab, "pieces": pieces}

        def splits() -> dict[str, Split]:
            return _corpus(corpus, direction, progress) if train is None else file_splits(train, valid, test)

        def lexicons(split: Split) -> tuple[Lexicon, Lexicon]:
            if train is None and corpus == "iwslt14" and level == "words":
                source, target = (_listed(split.where.with_name(f"vocab.{side}.txt")) for side in direction.split("-"))
                return source, target
            return learn(split, (level, level), progress, **limits)

        super().__init__(splits, lexicons, text=text, metric=metric, progress=progress, **settings)

    def prepare(self, line: str) -> str:
        """A line as the training data were prepared."""
        return line.strip() if self.tokenised else tokenise(line)

    def read_target(self, text: str) -> list[int]:
        """A true output as tokens, prepared as the training data were."""
        return super().read_target(text if self.tokenised else tokenise(text))


def _corpus(corpus: str, direction: str, progress: Progress) -> dict[str, Split]:
    """The splits of a public data set, which is found or fetched."""
    folder = store.folder(corpus, progress)
    if corpus == "tatoeba":
        return {split: _tatoeba(folder / "deu.txt", split, direction) for split in ("train", "valid", "test")}
    sides = direction.split("-")
    return {split: file_split([folder / f"{name}.{side}" for side in sides]) for split, name in NAMES[corpus].items()}


def _listed(path: Path) -> Lexicon:
    """The words of a list, a line each, without its special signs."""
    return Lexicon.of([word for _, word, _ in read_lines(path) if word and word not in SPECIALS], "words")


def _tatoeba(path: Path, split: str, direction: str) -> Split:
    """A split of the Tatoeba pairs: 8 of 10 English sentences for training, 1 each for validation and test."""

    def pairs(bad: BadLines) -> Iterator[tuple[str, Pair]]:
        for number, english, german in _columns(path, bad):
            place = {8: "valid", 9: "test"}.get(hashed(english, 10), "train")
            yield place, (number, german, english) if direction == "de-en" else (number, english, german)

    def read(bad: BadLines) -> Iterable[Pair]:
        held = {pair[1] for place, pair in pairs(BadLines(skip=True)) if place != "train"} if split == "train" else ()
        return (pair for place, pair in pairs(bad) if place == split and pair[1] not in held)

    return Split(path, read)


def _columns(path: Path, bad: BadLines) -> Iterator[Pair]:
    """Line number, English and German, tokenised; newer files have a third column, which names their authors."""
    for number, line in good_lines(path, bad):
        fields = line.split("\t")
        if len(fields) < 2 or not (fields[0].strip() and fields[1].strip()):
            bad.note(path, number, "no pair")
        else:
            yield number, tokenise(fields[0]), tokenise(fields[1])


def tokenise(text: str) -> str:
    """Lower case, with spaces around every punctuation mark; a hyphen or apostrophe inside a word stays in it."""
    return " ".join(re.findall(r"\w+(?:['\u2019-]\w+)*|[^\w\s]", text.lower()))
