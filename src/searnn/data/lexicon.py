"""The units of one side of a text task: from text to token ids and back, learned or given, kept in a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from searnn import sealed
from searnn.data.units import (
    FORMS,
    LEVELS,
    UNKNOWN,
    composed,
    join,
    normal,
    pieces_of,
    split,
    split_chars,
    train_pieces,
)
from searnn.files import replace_file
from searnn.types import SearnnError, Vocabulary

SYMBOL = 2  # most characters of a symbol, such as a phoneme, where words have more


@dataclass(frozen=True)
class Lexicon:
    """The units, numbered from 0; EOS where outputs end by it, then PAD and BOS come after them.

    Make one by `of`, `learn` or `load`. What is no unit is encoded as number `unknown`. `model` is that of the pieces,
    `form` the normal form of the text.
    """

    level: str
    units: tuple[str, ...] = field(repr=False)
    unknown: int
    ended: bool = True
    model: bytes = field(default=b"", repr=False)
    form: str = "nfc"

    def __post_init__(self) -> None:
        _check_known("level", self.level, LEVELS)
        _check_known("form", self.form, FORMS)
        if len(self.ids) != len(self.units):
            twice = next(unit for unit, times in Counter(self.units).items() if times > 1)
            raise SearnnError(f"the unit {twice!r} is given twice: expected every unit once")
        if not 0 <= self.unknown < len(self.units):
            raise SearnnError(f"the unknown unit is number {self.unknown}, expected 0 to {len(self.units) - 1}")
        if self.level == "sentencepiece" and not self.model:
            raise SearnnError("pieces were given without their model: use Lexicon.learn or Lexicon.load")

    @classmethod
    def of(cls, units: Iterable[str], level: str, unknown: str = UNKNOWN, ended: bool = True) -> Lexicon:
        """A given list of units; the unknown one is put first if it is missing."""
        given = tuple(units)
        given = given if unknown in given else (unknown, *given)
        return cls(level, given, given.index(unknown), ended)

    @classmethod
    def learn(
        cls,
        texts: Iterable[str],
        level: str,
        *,
        min_count: int = 1,
        max_size: int | None = None,
        pieces: int = 8000,
        form: str = "nfc",
    ) -> Lexicon:
        """Learn the units of texts: see `counted`, or for sentencepiece train a model of as many `pieces`."""
        _check_known("level", level, LEVELS)
        if level == "sentencepiece":
            model = train_pieces(texts, pieces, form)
            return cls(level, _pieces(pieces_of(model)), 0, model=model, form=form)
        counts = Counter(chain.from_iterable(split(text, level, form) for text in texts))
        return cls.counted(counts, level, min_count=min_count, max_size=max_size, form=form)

    @classmethod
    def counted(
        cls,
        counts: Mapping[str, int],
        level: str,
        *,
        min_count: int = 1,
        max_size: int | None = None,
        form: str = "nfc",
    ) -> Lexicon:
        """The unknown unit, then the most frequent first, ties by code point.

        Units that come fewer than `min_count` times are left out; `max_size` units are kept, the unknown among them.
        """
        for name, value, least in (("min_count", min_count, 1), ("max_size", max_size, 2)):
            if value is not None and value < least:
                raise SearnnError(f"{name} is {value}, expected at least {least}")
        kept = [unit for unit, times in counts.items() if times >= min_count and unit != UNKNOWN]
        if not kept:
            told = f"no unit of {level} comes {min_count} times or more"
            raise SearnnError(f"{told}: give more text" + ("" if min_count == 1 else " or lower min_count"))
        kept.sort(key=lambda unit: (-counts[unit], unit))
        return replace(cls.of([UNKNOWN, *kept][:max_size], level), form=form)

    @classmethod
    def load(cls, folder: Path, name: str) -> Lexicon:
        """Read what `save` wrote."""
        path, advice = folder / f"{name}.json", "put back the file that was saved"
        try:
            found = sealed.read(path, Saved, advice)
            model = sealed.read_bytes(folder / f"{name}.model") if found.level == "sentencepiece" else b""
        except OSError as error:
            raise SearnnError(f"{error.filename} cannot be read: {error.strerror}: {advice}") from error
        try:
            made = cls(found.level, found.units, found.unknown, found.ended, model, found.form)
        except SearnnError as error:
            raise SearnnError(f"{path} is damaged ({error}): {advice}") from error
        if model and _pieces(made._processor) != made.units:
            other = folder / f"{name}.model"
            raise SearnnError(f"{path} and {other} do not belong together: put back the files that were saved")
        return made

    def save(self, folder: Path, name: str) -> None:
        """Write `name`.json, and `name`.model for pieces, to a folder that is there."""
        record = {"level": self.level, "units": self.units, "unknown": self.unknown, "ended": self.ended}
        record |= {"form": self.form} if self.form != "nfc" else {}
        path = folder / f"{name}.json"
        try:
            if self.model:
                replace_file(folder / f"{name}.model", self.model)
            replace_file(path, sealed.text_of(record, ensure_ascii=False, indent=0).encode())
        except OSError as error:
            told = f"{path} cannot be written: {error.strerror or error}"
            raise SearnnError(f"{told}: give a folder that can be written and has room") from error

    @property
    def size(self) -> int:
        """How many units there are: what an embedding of sources needs."""
        return len(self.units)

    @cached_property
    def vocab(self) -> Vocabulary:
        """The tokens of outputs."""
        size = self.size
        if self.ended:
            return Vocabulary(size=size + 1, pad=size + 1, bos=size + 2, eos=size)
        return Vocabulary(size=size, pad=size, bos=size + 1)

    def encode(self, text: str) -> list[int]:
        """The token ids of a text, without EOS."""
        if self.level == "sentencepiece":
            tokens: list[int] = self._processor.encode(normal(text, self.form))
            return tokens
        get, unknown = self.ids.get, self.unknown
        return [get(unit, unknown) for unit in split(text, self.level, self.form)]

    def unseen(self, text: str) -> list[str]:
        """The units of a text that are encoded as unknown."""
        if self.level == "sentencepiece":
            pieces = self._processor.encode(normal(text, self.form), out_type=str)
        else:
            pieces = split(text, self.level, self.form)
        return [unit for unit in pieces if unit not in self.ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids; EOS, PAD and BOS are left out."""
        size = self.size
        tokens = [token for token in ids if 0 <= token < size]
        if self.level == "sentencepiece":
            text: str = self._processor.decode(tokens)
            return composed(text, self.form)
        return join([self.units[token] for token in tokens], self.level, self.form)

    @cached_property
    def has_words(self) -> bool:
        """Whether what it cuts text into makes words: neither characters nor symbols between spaces, as phonemes."""
        if self.level != "words":
            return self.level == "sentencepiece"
        return 2 * sum(len(split_chars(unit)) > SYMBOL for unit in self.units) > len(self.units)

    @cached_property
    def ids(self) -> dict[str, int]:
        """The number of every unit."""
        return {unit: number for number, unit in enumerate(self.units)}

    @cached_property
    def _processor(self) -> Any:
        return pieces_of(self.model)


class Saved(sealed.Checked):
    """What the record of a lexicon holds."""

    level: str
    units: tuple[str, ...]
    unknown: int
    ended: bool
    form: str = "nfc"  # of older runs


def _check_known(what: str, name: str, known: Sequence[str]) -> None:
    """Refuse a level or a form there is not."""
    if name not in known:
        raise SearnnError(f"the {what} is {name!r}, expected one of {', '.join(known)}")


def _pieces(processor: Any) -> tuple[str, ...]:
    """All pieces of a model."""
    return tuple(processor.id_to_piece(number) for number in range(processor.get_piece_size()))
