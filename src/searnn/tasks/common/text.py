"""What all tasks on pairs of texts share: where the pairs come from, room for outputs, and the metrics of text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

from jaxtyping import Int
from torch import Tensor

from searnn.data.batching import Examples, join
from searnn.data.corpus import Pair, encode_pairs, learn_lexicons
from searnn.data.lexicon import Lexicon
from searnn.data.lines import BadLines, read_pairs
from searnn.data.noise import disturb
from searnn.data.room import Room
from searnn.data.store import Progress, quiet
from searnn.data.units import UNKNOWN
from searnn.settings import Setting, check
from searnn.tasks.common import metrics
from searnn.tasks.common.lexicons import LexiconTask, load_lexicons
from searnn.tasks.settings import Metric, Paths, SkipBadLines
from searnn.types import SearnnError

Measure = Callable[[list[str], list[str]], Any]  # the user's own error of an output and a target


@dataclass(frozen=True)
class Split:
    """One split of the data: where it comes from, as messages name it, and its pairs, read anew at each call."""

    where: Path
    read: Callable[[BadLines], Iterable[Pair]]


class TextTask(LexiconTask):
    """Pairs of texts under two lexicons.

    `splits` gives "train", "valid" and, where there is one, "test"; each is read when it is first asked for. With
    `text`, the folder that `save` filled, lexicons and room come from there; without it `lexicons` makes them of the
    training pairs. `metric` is one of `metrics.NAMES`, or `cost` where the user's own `measure` of an output and a
    target is given.
    """

    name: str
    feature_column: int | None = None  # of files with tabs

    def __init__(
        self,
        splits: Callable[[], Mapping[str, Split]],
        lexicons: Callable[[Split], tuple[Lexicon, Lexicon]],
        *,
        text: Path | None = None,
        metric: Metric = "error",
        measure: Measure | None = None,
        max_length: Annotated[int, Setting("most units of a line; a longer one is a bad line", ge=1)] = 200,
        source_noise: Annotated[
            float, Setting("chance that a unit of a training source is left out or replaced", ge=0, lt=1)
        ] = 0.0,
        skip_bad_lines: SkipBadLines = False,
        progress: Progress = quiet,
    ) -> None:
        check(TextTask, locals())
        self._find_splits = splits
        self.change = partial(disturb, rate=source_noise) if source_noise else None
        self.max_length, self.skip_bad_lines, self.progress = max_length, skip_bad_lines, progress
        super().__init__()
        self.keep(*(lexicons(self.splits["train"]) if text is None else load_lexicons(text)))
        self._room = None if text is None else Room.load(text)
        self.measure = measure
        self.metric = "cost" if measure is not None else metric
        if measure is None and metric not in metrics.NAMES:
            known = ", ".join(metrics.NAMES)
            raise SearnnError(f"the metric of {self.name} is {metric!r}, expected {known} or package.module:function")
        self.higher_is_better = self.metric in metrics.HIGHER
        self.signature: str | None = None  # of the BLEU or chrF that was last computed

    @cached_property
    def splits(self) -> Mapping[str, Split]:
        """Where the data is: found, or fetched, when something of it is wanted."""
        return self._find_splits()

    def names(self) -> Iterable[str]:
        """The splits that training needs or that were given."""
        return dict.fromkeys(("train", "valid", *self.splits))

    @property
    def room(self) -> Room:
        """How many cells an output may take."""
        if self._room is None:
            self.examples("train")
        assert self._room is not None
        return self._room

    @cached_property
    def measured(self) -> tuple[str, ...]:
        """What is measured: rates in per cent or as shares, as the metric is, and BLEU where targets are of words."""
        rates = ("per", "wer") if self.metric in metrics.IN_PERCENT else ("error", "sequence_error")
        words = ("bleu",) if "error" in rates and self.target.has_words else ()
        own = (self.metric,) if self.measure is None else ()
        return tuple(dict.fromkeys((*rates, *words, *own)))

    @property
    def knowledge(self) -> dict[str, Any]:
        """What costs and oracles may want to know of the vocabulary."""
        return {"unknown": self._unknown}

    @property
    def _unknown(self) -> int | None:
        """The token that stands for words outside the lexicon; None where every text can be written."""
        unknown = self.target.unknown
        return unknown if self.target.units[unknown] == UNKNOWN else None

    def make(self, split: str) -> Examples:
        """Encode a split."""
        if split not in self.splits:
            raise SearnnError(f"there is no {split} data: give a file with --{split}")
        found, bad = self.splits[split], BadLines(self.skip_bad_lines)
        corpus = encode_pairs(
            found.read(bad),
            self.source,
            self.target,
            bad=bad,
            where=found.where,
            max_length=self.max_length,
            progress=lambda count: self.progress(f"{found.where.name}: {count:,} lines"),
        )
        summary = bad.summary()
        if summary is not None:
            self.notes.append(summary)
        sources, targets = corpus.sources, corpus.targets
        if split == "train" and self._room is None:
            self._room = Room.fit(sources.lengths, targets.lengths)
        limits = self.room(sources.lengths)
        if split == "train":  # a rare long target is learned whole; in the other splits its end counts as an error
            limits = limits.maximum(targets.lengths)
        return join(sources, targets, self.vocab, limits, ids=corpus.numbers)

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """The metric that decides and those of its kind, as `measured` says; `cost` is the mean of the user's own
        measure. An unknown word of the truth is never right.
        """
        truths = [[-1 if token == self._unknown else token for token in target] for target in targets]
        known = metrics.rates(outputs, truths)
        found = {name: known[name] for name in self.measured if name in known}
        for name, score in (("bleu", metrics.corpus_bleu), ("chrf", metrics.corpus_chrf)):
            if name in self.measured:
                references = [self._reference(target) for target in targets]
                found[name], self.signature = score([self.show(output) for output in outputs], references)
        if self.measure is not None:
            # A truth is shown to the user's function with a NUL for an unknown unit, so that it is never right.
            missing = [["\0" if token == self._unknown else self.target.units[token] for token in t] for t in targets]
            pairs = zip(map(self.units, outputs), missing, strict=True)
            found["cost"] = sum(_measured(self.measure, *pair) for pair in pairs) / len(targets)
        return found

    def _reference(self, target: Sequence[int]) -> str:
        """The truth as text, in which an unknown word is one that no output has."""
        text = self.show(target)
        return text.replace(UNKNOWN, "\0") if self._unknown in target else text  # lines with a NUL are never read

    def prepare(self, line: str) -> str:
        """A line in the form of the training data."""
        return line.strip()

    def read(self, line: str) -> list[int]:
        """A line to predict from as tokens."""
        text = self.prepare(line)
        if "\t" in text:
            raise SearnnError("it has a tab: give the source alone")
        tokens = self.source.encode(text)
        if not tokens:
            raise SearnnError("it is empty")
        if len(tokens) > self.max_length:
            raise SearnnError(f"it has {len(tokens)} units, more than the {self.max_length} of --max-length")
        return tokens

    def unknown_units(self, line: str) -> list[str]:
        """The units of a line that no training source has."""
        return self.source.unseen(self.prepare(line))

    def take_test(self, paths: Paths) -> None:
        """Take the pairs of these files as the test data; what else there is is not looked for."""
        self._examples.pop("test", None)
        self.splits = {"test": file_split(paths, self.feature_column)}

    def cells(self, lengths: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        """How many cells outputs for sources of these lengths may take."""
        return self.room(lengths)

    def write(self, folder: Path) -> None:
        """Write the lexicons and the room."""
        super().write(folder)
        self.room.save(folder)

    def source_units(self, tokens: Sequence[int]) -> list[str]:
        """The characters, words or pieces of an input."""
        return [self.source.units[token] for token in tokens]

    def show_source(self, tokens: Sequence[int]) -> str:
        """An input as text."""
        return self.source.decode(tokens)

    def read_target(self, text: str) -> list[int]:
        """A true output as tokens."""
        return self.target.encode(text.strip())


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


def learn(split: Split, levels: tuple[str, str], progress: Progress = quiet, **limits: Any) -> tuple[Lexicon, Lexicon]:
    """The lexicons of the training pairs; bad lines are passed over here, and told when the pairs are encoded."""
    progress(f"{split.where.name}: learning the vocabulary")
    bad = BadLines(skip=True)
    if next(iter(split.read(bad)), None) is None:
        bad.close(0)
        raise SearnnError(f"{split.where} holds no lines: expected at least one pair")
    return learn_lexicons(lambda: split.read(BadLines(skip=True)), levels, **limits)


def file_splits(
    train: Paths | None, valid: Paths | None, test: Paths | None, features: int | None = None
) -> dict[str, Split]:
    """The splits that were given, each as one file with tabs or as two parallel files."""
    given = {"train": train, "valid": valid, "test": test}
    return {name: file_split(paths, features) for name, paths in given.items() if paths}


def file_split(paths: Paths, features: int | None = None) -> Split:
    """The split that one or two files hold; `features` is the column of features of one that has three."""
    files = tuple(Path(path).expanduser() for path in paths)
    if len(files) not in (1, 2):
        given = f"{len(files)} files were given for pairs of lines"
        raise SearnnError(f"{given}: expected one with tabs, or two with as many lines each")
    for path in files:
        if path.exists() and not path.is_file():  # a pipe cannot be read twice
            raise SearnnError(f"{path} is no regular file, and data is read more than once: give a file")
    return Split(files[0], lambda bad: read_pairs(files, bad, features))
