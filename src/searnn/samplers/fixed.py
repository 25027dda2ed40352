"""Candidates that do not depend on the model: every token, the end of the output, the true tokens around the cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.samplers.candidates import Candidates
from searnn.sequences import reference_tokens, true_tokens
from searnn.settings import checked
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


@checked
class NeighbourTokens:
    """The true token and the k - 1 true tokens nearest to the cell (appendix "NMT": words skipped or repeated).

    Half of them stand on each side, the next before the previous where k - 1 is odd. Where the target has no token the
    slot repeats the cell's own. K is k, or 2 T - 1 where no cell has that many neighbours.
    """

    name: ClassVar[str] = "neighbours"
    k: Candidates

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        vocab = batch.vocabulary
        width = batch.targets.shape[1]
        slots = torch.arange(min(self.k, 2 * width - 1), device=cells.device)
        offsets = torch.where(slots % 2 == 1, slots // 2 + 1, -(slots // 2))  # 0, 1, -1, 2, -2, ...
        positions = cells.unsqueeze(-1) + offsets  # [B, C, K]
        places = positions.clamp(0, width - 1).flatten(1)
        tokens = reference_tokens(batch).gather(1, places).view_as(positions)
        missing = (positions < 0) | (positions >= width) | (tokens == vocab.pad)
        return torch.where(missing, true_tokens(batch, cells).unsqueeze(-1), tokens)
