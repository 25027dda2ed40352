"""Pairs of texts as token ids in a temporary file that is mapped into memory, so that millions of them fit."""

from __future__ import annotations

import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from searnn.data.batching import Packed
from searnn.data.lexicon import Lexicon
from searnn.data.lines import BadLines
from searnn.data.store import cache_folder
from searnn.data.units import split
from searnn.files import make_folder
from searnn.types import SearnnError

Pair = tuple[int, str, str]  # line number, source, target

CHUNK = 1 << 18  # tokens held before they are written
OFTEN = 10_000  # lines between two calls of `progress`


@dataclass(frozen=True)
class Corpus:
    """Encoded pairs: sources, targets (with EOS where the lexicon ends outputs by it), and their line numbers."""

    sources: Packed  # int32 tokens
    targets: Packed  # int32 tokens
    numbers: Int[Tensor, "N"]

    def __len__(self) -> int:
        return len(self.numbers)


def encode_pairs(
    pairs: Iterable[Pair],
    source: Lexicon,
    target: Lexicon,
    *,
    bad: BadLines,
    where: Path,
    max_length: int,
    progress: Callable[[int], None] | None = None,
) -> Corpus:
    """Encode pairs in one pass; a side of more than `max_length` units, EOS not counted, makes its line a bad one.

    `where` names the pairs in messages. `progress` is told the line number now and then. Bad lines are refused at the
    end, by `bad.close`.
    """
    end = () if target.vocab.eos is None else (target.vocab.eos,)
    encode_source, encode_target = source.encode, target.encode
    numbers = array("q")
    due = OFTEN
    with _scratch() as first, _scratch() as second:
        sources, targets = _Writer(first), _Writer(second)
        for number, left, right in pairs:
            reads, writes = encode_source(left), encode_target(right)
            if not 0 < len(reads) <= max_length or not 0 < len(writes) <= max_length:
                long = max(len(reads), len(writes)) > max_length
                side = "target" if reads else "source"
                bad.note(where, number, f"longer than {max_length}" if long else f"empty {side}")
            else:
                writes.extend(end)
                sources.add(reads)
                targets.add(writes)
                numbers.append(number)
            if progress is not None and number >= due:
                progress(number)
                due = number + OFTEN
        bad.close(len(numbers))
        if not numbers:
            raise SearnnError(f"{where} holds no lines: expected at least one pair")
        return Corpus(sources.packed(), targets.packed(), torch.from_numpy(np.array(numbers)))


def learn_lexicons(
    make_pairs: Callable[[], Iterable[Pair]],
    levels: tuple[str, str],
    *,
    min_count: int = 1,
    max_size: int | None = None,
    pieces: int = 8000,
    forms: tuple[str, str] = ("nfc", "nfc"),
) -> tuple[Lexicon, Lexicon]:
    """Learn the lexicons of sources and targets, as `Lexicon.learn` does, with one pass over the pairs if it can be.

    Pieces need a pass for each side, so `make_pairs` starts over whenever it is called.
    """
    limits: dict[str, Any] = {"min_count": min_count, "max_size": max_size}
    if not set(levels) <= {"chars", "words"}:

        def texts(side: int) -> Iterable[str]:
            return (cast(str, pair[side]) for pair in make_pairs())

        source, target = (
            Lexicon.learn(texts(side), level, pieces=pieces, form=form, **limits)
            for side, (level, form) in enumerate(zip(levels, forms, strict=True), 1)
        )
        return source, target
    of_sources, of_targets = Counter[str](), Counter[str]()
    for _, left, right in make_pairs():
        of_sources.update(split(left, levels[0], forms[0]))
        of_targets.update(split(right, levels[1], forms[1]))
    source = Lexicon.counted(of_sources, levels[0], form=forms[0], **limits)
    return source, Lexicon.counted(of_targets, levels[1], form=forms[1], **limits)


class _Writer:
    """Sequences of one side, written to a file end to end."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self._held = array("i")
        self._lengths = array("i")

    def add(self, tokens: list[int]) -> None:
        """Append a sequence."""
        self._held.extend(tokens)
        self._lengths.append(len(tokens))
        if len(self._held) > CHUNK:
            self._write()

    def packed(self) -> Packed:
        """All sequences; the file may be closed, the map keeps what it holds."""
        self._write()
        lengths = torch.from_numpy(np.array(self._lengths, dtype=np.int64))
        starts = lengths.cumsum(0).sub_(lengths)
        total = int(starts[-1] + lengths[-1])
        # Writable, though nothing writes: torch warns of arrays that are not.
        values = np.memmap(self._file, dtype=np.int32, mode="r+", shape=(total,))
        return Packed(torch.from_numpy(values), starts, lengths)

    def _write(self) -> None:
        """Move what is held to the file."""
        rest = memoryview(self._held).cast("B")
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            told = f"the encoded text cannot be written: {error.strerror or error}"
            advice = "free some space, or set XDG_CACHE_HOME to a folder on a larger disk"
            raise SearnnError(f"{told}: {advice}") from error
        self._held = array("i")


def _scratch() -> FileIO:
    """A file without a name, which is gone when it is closed and no longer mapped.

    In the cache rather than the system's folder, which may lie in memory. Without a buffer, so that nothing is left to
    fail when it is closed.
    """
    folder = cache_folder()
    try:
        with suppress(OSError):
            make_folder(folder)
            return tempfile.TemporaryFile(dir=folder, buffering=0)
        return tempfile.TemporaryFile(buffering=0)
    except OSError as error:
        told = f"no temporary file can be made in {folder}: {error.strerror or error}"
        raise SearnnError(f"{told}: set XDG_CACHE_HOME to a folder that can be written and has room") from error
