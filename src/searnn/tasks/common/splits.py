"""Tasks whose data is split into training, validation and test; each split is read when it is first asked for."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable

from searnn.data.batching import Change, Examples, ShuffledBatches, ordered_batches
from searnn.types import Batch


class SplitTask(ABC):
    """Keeps the splits that were read. A task says how to `make` one, and in `names` which there are if not all three.

    With a `pool` training batches are of about equal lengths, and a `change` is made to each: `ShuffledBatches`.
    """

    features: int | None = None
    metric = "error"
    higher_is_better = False
    pool = 1
    change: Change | None = None

    def __init__(self) -> None:
        self.notes: list[str] = []  # what the user should know of the data
        self._examples: dict[str, Examples] = {}

    @abstractmethod
    def make(self, split: str) -> Examples:
        """Read a split."""

    def names(self) -> Iterable[str]:
        """The splits that training needs or that were given."""
        return ("train", "valid", "test")

    def examples(self, split: str) -> Examples:
        """A split of the data, read once."""
        if split not in self._examples:
            self._examples[split] = self.make(split)
        return self._examples[split]

    def load(self) -> None:
        """Read every split now, so that what is wrong with it is found before training begins."""
        for split in self.names():
            self.examples(split)

    def train(self, batch_size: int, seed: int) -> ShuffledBatches:
        """Training batches; the seed is that of their order."""
        return ShuffledBatches(self.examples("train"), batch_size, seed, pool=self.pool, change=self.change)

    def valid(self, batch_size: int) -> Iterable[Batch]:
        """The validation data, once."""
        return ordered_batches(self.examples("valid"), batch_size)

    def test(self, batch_size: int) -> Iterable[Batch]:
        """The test data, once."""
        return ordered_batches(self.examples("test"), batch_size)


def judged_on(task: object) -> str:
    """The split that models are judged on: the test data, or validation where there are none."""
    return "valid" if isinstance(task, SplitTask) and "test" not in task.names() else "test"


def hashed(text: str, count: int) -> int:
    """A number below `count` that depends on the text alone, for splits that are the same everywhere."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") % count
