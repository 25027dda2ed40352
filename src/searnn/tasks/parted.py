"""Tasks whose data comes in parts: training, validation and test, each read when it is first asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from searnn.data.batching import Examples, ordered_batches
from searnn.types import Batch


class Parted(ABC):
    """Keeps the parts that were read. What it is made for tells the `names` of the parts, and how to `make` one."""

    def __init__(self) -> None:
        self.notes: list[str] = []  # what the user should know of the data
        self._examples: dict[str, Examples] = {}

    @abstractmethod
    def names(self) -> Iterable[str]:
        """The parts that training needs or that were given."""

    @abstractmethod
    def make(self, part: str) -> Examples:
        """Read a part."""

    def examples(self, part: str) -> Examples:
        """A part of the data, read once."""
        if part not in self._examples:
            self._examples[part] = self.make(part)
        return self._examples[part]

    def load(self) -> None:
        """Read every part now, so that what is wrong with it is found before training begins."""
        for part in self.names():
            self.examples(part)

    def valid(self, batch_size: int) -> Iterable[Batch]:
        """The validation data, once."""
        return ordered_batches(self.examples("valid"), batch_size)

    def test(self, batch_size: int) -> Iterable[Batch]:
        """The test data, once."""
        return ordered_batches(self.examples("test"), batch_size)
