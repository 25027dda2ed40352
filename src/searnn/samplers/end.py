"""The end of the output as a candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.sequences import true_tokens
from searnn.types import Batch


@dataclass(frozen=True)
class EndToken:
    """The true token and EOS, which the paper's translation runs try at every cell; to be joined with others.

    Where outputs have a known length there is no EOS, and the true token stands alone.
    """

    name: ClassVar[str] = "end"

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        truth = true_tokens(batch, cells).unsqueeze(-1)
        eos = batch.vocabulary.eos
        return truth if eos is None else torch.cat([truth, torch.full_like(truth, eos)], dim=-1)
