"""Every token of the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.types import Batch


@dataclass(frozen=True)
class AllTokens:
    """Every token that may stand in an output, in ascending order: the full LL and KL rather than sLL and sKL.

    The true token is one of them and keeps its place, so that candidates and scores stand in the same order.
    """

    name: ClassVar[str] = "all"
    distinct: ClassVar[bool] = True  # no candidate is repeated, the search need not look

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        vocab = batch.vocabulary
        tokens = torch.arange(len(vocab.choosable), device=cells.device)
        for never in sorted((vocab.pad, vocab.bos)):  # made on the device: a list copied there would stop it
            tokens = tokens + (tokens >= never)
        return tokens.expand(*cells.shape, -1)
