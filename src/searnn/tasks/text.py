"""What all tasks on pairs of texts share: lexicons, examples in mapped memory, batches by length, metrics of text."""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxtyping import Int
from torch import Tensor

from searnn.tasks import scores
from searnn.tasks.batching import Examples, ShuffledBatches, join, ordered_batches
from searnn.tasks.corpus import Pair, encode_pairs, learn_lexicons
from searnn.tasks.lexicon import Lexicon
from searnn.tasks.lines import BadLines
from searnn.tasks.room import Room
from searnn.tasks.units import UNKNOWN
from searnn.types import Batch, SearnnError

Progress = Callable[[str], None]  # told what is done now, in a few words
Measure = Callable[[list[str], list[str]], Any]  # the user's own error of an output and a target

POOL = 100  # batches whose examples are sorted by length together
OF_CHARS = {"error": "error", "sequence_error": "sequence_error"}
OF_WORDS = {**OF_CHARS, "bleu": "bleu"}


def silent(_: str) -> None:
    """Nobody wants to know."""


def hashed(text: str, count: int) -> int:
    """A number below `count` that depends on the text alone, for splits that are the same everywhere."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % count


@dataclass(frozen=True)
class Part:
    """One part of the data: where it comes from, as messages name it, and its pairs, read anew at each call."""

    where: Path
    read: Callable[[BadLines], Iterable[Pair]]


class TextTask:
    """Pairs of texts under two lexicons.

    `parts` gives "train", "valid" and, where there is one, "test"; a part is read when it is first asked for. With
    `text`, the folder that `save` filled, lexicons and room come from there; without it `lexicons` makes them of the
    training pairs. `metric` is one of those that `names` gives to what is measured, or `cost` where the user's own
    `measure` of an output and a target is given.
    """

    features: int | None = None

    def __init__(
        self,
        name: str,
        parts: Callable[[], Mapping[str, Part]],
        lexicons: Callable[[Part], tuple[Lexicon, Lexicon]],
        *,
        text: Path | None = None,
        room: Room | None = None,
        metric: str = "error",
        measure: Measure | None = None,
        names: Mapping[str, str] | None = None,
        max_length: int = 200,
        skip_bad_lines: bool = False,
        progress: Progress = silent,
    ) -> None:
        self.name, self._find_parts = name, parts
        self.max_length, self.skip_bad_lines, self.progress = max_length, skip_bad_lines, progress
        self.notes: list[str] = []  # what the user should know of the data
        self._examples: dict[str, Examples] = {}
        if text is None:
            self.source, self.target = lexicons(self.parts["train"])
        else:
            self.source, self.target = Lexicon.load(text, "source"), Lexicon.load(text, "target")
        self.vocab = self.target.vocab
        self.source_size: int | None = self.source.size
        self._room = Room.load(text) if text is not None else room
        self.measure = measure
        self.metric = "cost" if measure is not None else metric
        self.names = names or (OF_CHARS if self.target.level == "chars" else OF_WORDS)
        if measure is None and metric not in self.names.values():
            known = ", ".join(self.names.values())
            raise SearnnError(f"the metric of {name} is {metric!r}, expected {known} or package.module:function")
        self.higher_is_better = self.metric == "bleu"
        self.signature: str | None = None  # of the BLEU that was last computed

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Where the data is: found, or fetched, when something of it is wanted."""
        return self._find_parts()

    def load(self) -> None:
        """Read every part now, so that what is wrong with it is found before training begins."""
        for part in dict.fromkeys(("train", "valid", *self.parts)):  # the two are needed, given or not
            self.examples(part)

    @property
    def room(self) -> Room:
        """How many cells an output may take."""
        if self._room is None:
            self.examples("train")
        assert self._room is not None
        return self._room

    @property
    def knowledge(self) -> dict[str, Any]:
        """What costs and oracles may want to know of the vocabulary."""
        return {"unknown": self._unknown}

    @property
    def _unknown(self) -> int | None:
        """The token that stands for words outside the lexicon; None where every text can be written."""
        unknown = self.target.unknown
        return unknown if self.target.units[unknown] == UNKNOWN else None

    def examples(self, name: str) -> Examples:
        """A part of the data, encoded once."""
        if name not in self._examples:
            if name not in self.parts:
                raise SearnnError(f"there is no {name} data: give a file with --{name}")
            self._examples[name] = self._encode(name, self.parts[name])
        return self._examples[name]

    def _encode(self, name: str, part: Part) -> Examples:
        bad = BadLines(self.skip_bad_lines)
        corpus = encode_pairs(
            part.read(bad),
            self.source,
            self.target,
            bad=bad,
            where=part.where,
            max_length=self.max_length,
            progress=lambda count: self.progress(f"{part.where.name}: {count:,} lines"),
        )
        summary = bad.summary()
        if summary is not None:
            self.notes.append(summary)
        sources, targets = corpus.sources, corpus.targets
        if name == "train" and self._room is None:
            self._room = Room.fit(sources.lengths, targets.lengths)
        limits = self.room(sources.lengths)
        if name == "train":  # a rare long target is learned whole; in the other parts its end counts as an error
            limits = limits.maximum(targets.lengths)
        return join(sources, targets, self.vocab, limits, ids=corpus.numbers)

    def train(self, batch_size: int, seed: int) -> ShuffledBatches:
        """Training batches of about equal lengths; the seed is that of their order."""
        return ShuffledBatches(self.examples("train"), batch_size, seed, pool=POOL)

    def valid(self, batch_size: int) -> Iterable[Batch]:
        """The validation pairs, once."""
        return ordered_batches(self.examples("valid"), batch_size)

    def test(self, batch_size: int) -> Iterable[Batch]:
        """The test pairs, once."""
        return ordered_batches(self.examples("test"), batch_size)

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """`error`: edit distance over length; `sequence_error`: outputs not exactly right; `bleu`: of words, by
        sacrebleu; `cost`: the mean of the user's own measure. An unknown word of the truth is never right.
        """
        truths = [[-1 if token == self._unknown else token for token in target] for target in targets]
        found = {
            self.names["error"]: scores.edit_error(outputs, truths),
            self.names["sequence_error"]: scores.sequence_error(outputs, truths),
        }
        if "bleu" in self.names:
            references = [self._reference(target) for target in targets]
            found["bleu"], self.signature = scores.corpus_bleu([self.show(output) for output in outputs], references)
        if self.measure is not None:
            pairs = zip(map(self.units, outputs), map(self.units, targets), strict=True)
            found["cost"] = sum(_measured(self.measure, *pair) for pair in pairs) / len(targets)
        return found

    def units(self, tokens: Sequence[int]) -> list[str]:
        """The characters, words or pieces of an output."""
        return [self.target.units[token] for token in tokens]

    def show(self, tokens: Sequence[int]) -> str:
        """An output as text."""
        return self.target.decode(tokens)

    def _reference(self, target: Sequence[int]) -> str:
        """The truth as text, in which an unknown word is one that no output has."""
        text = self.show(target)
        return text.replace(UNKNOWN, "\0") if self._unknown in target else text  # lines with a NUL are never read

    def read(self, line: str) -> list[int]:
        """A line to predict from as tokens."""
        tokens = self.source.encode(line)
        if not tokens:
            raise SearnnError("it is empty")
        if len(tokens) > self.max_length:
            raise SearnnError(f"it has {len(tokens)} units, more than the {self.max_length} of --max-length")
        return tokens

    def cells(self, lengths: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        """How many cells outputs for sources of these lengths may take."""
        return self.room(lengths)

    def save(self, folder: Path) -> None:
        """Write what prediction needs besides the model."""
        write_text(folder, self.source, self.target, self.room)


def _measured(measure: Measure, output: list[str], target: list[str]) -> float:
    """What the user's own function says of an output; whatever it does wrong is told in one line."""
    where = f"the metric {getattr(measure, '__qualname__', measure)}"
    pair = f"output {output} and target {target}"
    try:
        value = float(measure(output, target))
    except Exception as error:
        raise SearnnError(f"{where} failed on {pair}: {type(error).__name__}: {error}") from error
    if not math.isfinite(value):
        raise SearnnError(f"{where} gave {value} on {pair}: it must return one finite number")
    return value


def write_text(folder: Path, source: Lexicon, target: Lexicon, room: Room | None = None) -> None:
    """Write lexicons and room to a new folder, which appears whole or not at all."""
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".text-") as made:
            inside = Path(made, folder.name)
            inside.mkdir()
            source.save(inside, "source")
            target.save(inside, "target")
            if room is not None:
                room.save(inside)
            inside.rename(folder)
    except OSError as error:
        raise SearnnError(f"{folder} cannot be written: {error.strerror or error}; free some space") from error


def learn(part: Part, levels: tuple[str, str], progress: Progress = silent, **limits: Any) -> tuple[Lexicon, Lexicon]:
    """The lexicons of the training pairs; bad lines are passed over here, and told when the pairs are encoded."""
    progress(f"{part.where.name}: learning the vocabulary")
    bad = BadLines(skip=True)
    if next(iter(part.read(bad)), None) is None:
        bad.close(0)
        raise SearnnError(f"{part.where} holds no lines: expected at least one pair")
    return learn_lexicons(lambda: part.read(BadLines(skip=True)), levels, **limits)
