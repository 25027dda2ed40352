"""Chunk F1: how well the chunks of a sentence are found."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor

from searnn.costs.common import TokenCost
from searnn.sequences.chunks import check_tags, chunk_counts
from searnn.settings import checked


@checked
class ChunkF1(TokenCost):
    """1 - F1 of the chunks of each sentence; `tags` has the tag of every token id, as O, B-NP, I-NP.

    A chunk counts where its first cell, its last cell and its type are right, as for conlleval. Where neither output
    nor target has a chunk the cost is 0, where one of them has none it is 1.
    """

    tags: tuple[str, ...] = ()
    name: ClassVar[str] = "chunk-f1"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_tags("ChunkF1", self.tags)

    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        correct, predicted, true = chunk_counts(outputs, targets, self.bound, self.tags)
        found = predicted + true
        return (found - 2 * correct) / found.clamp(min=1)
