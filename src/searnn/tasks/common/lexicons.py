"""Tasks that have learned of their data what their tokens stand for, and keep it with the run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from searnn.data.lexicon import Lexicon
from searnn.files import NEW, make_folder, remove_folder, rename
from searnn.tasks.common.splits import SplitTask
from searnn.types import SearnnError


class LexiconTask(SplitTask):
    """A lexicon of the inputs and one of the outputs, which `keep` sets and `save` writes."""

    pool = 100

    def keep(self, source: Lexicon, target: Lexicon) -> None:
        """Take these lexicons; a task does it before anything of its data is asked for."""
        self.source, self.target = source, target
        self.vocab = target.vocab
        self.source_size: int | None = source.size

    @cached_property
    def identity(self) -> str:
        """A digest of the vocabulary."""
        lexicons = (self.source, self.target)
        told: list[Any] = [(one.level, one.unknown, one.units, one.model.hex()) for one in lexicons]
        forms = [one.form for one in lexicons]
        told += [] if set(forms) == {"nfc"} else forms  # as it was before there were others
        return hashlib.blake2b(repr(told).encode(), digest_size=16).hexdigest()

    def units(self, tokens: Sequence[int]) -> list[str]:
        """The characters, words, pieces or tags of an output."""
        return [self.target.units[token] for token in tokens]

    def show(self, tokens: Sequence[int]) -> str:
        """An output as text."""
        return self.target.decode(tokens)

    def save(self, folder: Path) -> None:
        """Write what prediction needs besides the model to a new folder, which appears whole or not at all."""
        if folder.is_dir():
            return
        new = folder.with_name(folder.name + NEW)
        try:
            remove_folder(new)  # which a process that was killed has left
            make_folder(new)
            self.write(new)
            rename(new, folder)
        except (OSError, SearnnError) as error:
            with suppress(OSError):
                remove_folder(new)
            if isinstance(error, SearnnError):
                raise
            raise SearnnError(f"{folder} cannot be written: {error.strerror or error}; free some space") from error

    def write(self, folder: Path) -> None:
        """Write all of it to a folder."""
        self.source.save(folder, "source")
        self.target.save(folder, "target")


def load_lexicons(folder: Path) -> tuple[Lexicon, Lexicon]:
    """The lexicons of inputs and outputs that were saved."""
    return Lexicon.load(folder, "source"), Lexicon.load(folder, "target")
