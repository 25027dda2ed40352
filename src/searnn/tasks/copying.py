"""Copying and reversing strings of symbols: small tasks with a free output length, for tests and as an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import torch
from jaxtyping import Int
from torch import Tensor

from searnn import rng
from searnn.data.batching import Examples, make_examples
from searnn.settings import Setting, check
from searnn.tasks.common import metrics
from searnn.tasks.common.splits import SplitTask
from searnn.tasks.settings import Seed
from searnn.types import SearnnError, Vocabulary


class Copy(SplitTask):
    """Write the input's symbols again, in the same or, with `reverse`, the opposite order.

    Strings have 1 to `length` symbols, both drawn evenly. The symbols are tokens 0 to `symbols` - 1, EOS comes next. An
    output may take `length` + 2 cells. There are `examples` strings for training, and a tenth as many each for
    validation and test, drawn from streams of their own, so a short string can be in two.
    """

    name = "copy"

    def __init__(
        self,
        symbols: Annotated[int, Setting("number of different symbols", ge=1)] = 10,
        length: Annotated[int, Setting("most symbols of a string", ge=1)] = 8,
        examples: Annotated[int, Setting("number of training strings", ge=1)] = 1000,
        seed: Seed = 0,
        reverse: Annotated[bool, Setting("write the string backwards")] = False,
    ) -> None:
        super().__init__()
        check(Copy, locals())
        if reverse:
            self.name = "reverse"
        self.vocab = Vocabulary(size=symbols + 1, pad=symbols + 1, bos=symbols + 2, eos=symbols)
        self.source_size: int | None = symbols
        self.length, self.count, self.seed = length, examples, seed
        self.room = length + 2

    def make(self, split: str) -> Examples:
        """Draw the strings of a split and write their copies."""
        draw = rng.generator(self.seed, self.name, split)
        count = self.count if split == "train" else -(-self.count // 10)
        lengths = torch.randint(1, self.length + 1, (count,), generator=draw)
        symbols = torch.randint(0, self.vocab.size - 1, (count, self.length), generator=draw).tolist()
        sources = [row[:size] for row, size in zip(symbols, lengths.tolist(), strict=True)]
        targets = [source[::-1] if self.name == "reverse" else source for source in sources]
        return make_examples(sources, targets, self.vocab, cap=self.room)

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """`error`: the edit distance of all outputs over the length of all targets, where an empty one counts as 1."""
        return {"error": metrics.edit_error(outputs, targets)}

    def show(self, tokens: Sequence[int]) -> str:
        """The symbols as numbers."""
        return " ".join(str(token) for token in tokens)

    def read(self, line: str) -> list[int]:
        """A line of symbols with spaces between them."""
        known = {str(symbol): symbol for symbol in range(self.vocab.size - 1)}
        words = line.split()
        if not words or not all(word in known for word in words):
            raise SearnnError(f"expected symbols from 0 to {self.vocab.size - 2} with spaces between them")
        return [known[word] for word in words]

    def cells(self, lengths: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        """How many cells outputs may take, whatever the lengths of their sources."""
        return torch.full_like(lengths, self.room)
