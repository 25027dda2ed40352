"""The true tokens around the cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.samplers.candidates import Candidates
from searnn.sequences import reference_tokens, true_tokens
from searnn.settings import check
from searnn.types import Batch


@dataclass(frozen=True)
class NeighbourTokens:
    """The true token and the k - 1 true tokens nearest to the cell (appendix "NMT": words skipped or repeated).

    Half of them stand on each side, the next before the previous where k - 1 is odd. Where the target has no token the
    slot repeats the cell's own. K is k, or 2 T - 1 where no cell has that many neighbours.
    """

    name: ClassVar[str] = "neighbours"
    k: Candidates

    def __post_init__(self) -> None:
        check(self)

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        vocab = batch.vocabulary
        width = batch.targets.shape[1]
        slots = torch.arange(min(self.k, 2 * width - 1), device=cells.device)
        offsets = torch.where(slots % 2 == 1, (slots + 1) // 2, -(slots // 2))  # 0, 1, -1, 2, -2, ...
        positions = cells.unsqueeze(-1) + offsets  # [B, C, K]
        places = positions.clamp(0, width - 1).flatten(1)
        tokens = reference_tokens(batch).gather(1, places).view_as(positions)
        missing = (positions < 0) | (positions >= width) | (tokens == vocab.pad)
        return torch.where(missing, true_tokens(batch, cells).unsqueeze(-1), tokens)
