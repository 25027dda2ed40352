"""Costs of positions: how many differ, or whether any does."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.costs.common import Normalised, TokenCost, as_costs, ends_here
from searnn.engine import replaceable
from searnn.sequences.ends import before_end, output_lengths
from searnn.settings import checked
from searnn.types import Batch, Branches


@checked
class Hamming(TokenCost):
    """The number of positions that differ; a position that only output or target has counts as wrong.

    `normalised` divides by the true length. What stands before EOS is compared: the EOS cell itself is not counted.
    """

    normalised: Normalised = False
    name: ClassVar[str] = "hamming"

    @replaceable
    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = self.bound
        truth = targets.view(len(targets), *[1] * (outputs.ndim - 2), -1)
        ours, theirs = before_end(outputs, vocab), before_end(truth, vocab)
        wrong = (ours | theirs) & ~(ours & theirs & (outputs == truth))
        return as_costs(wrong.sum(-1), targets, vocab, self.normalised)

    @replaceable
    def closed_form(self, oracle: str, branches: Branches, batch: Batch) -> Float[Tensor, "B C K"] | None:
        """The cost of the oracle's completion of every branch, without building it; None where there is no such form.

        After a copied truth, only the prefix, the token and what the room cuts off can be wrong.
        """
        vocab = self.bound
        if oracle != "copy" or vocab != batch.vocabulary:
            return None
        targets, prefix = batch.targets, branches.prefix
        cells = branches.cells.clamp(0, targets.shape[1] - 1)  # those outside are masked
        length = output_lengths(targets, vocab).unsqueeze(1)  # [B, 1]
        kept = cells.minimum(output_lengths(prefix, vocab).unsqueeze(1))  # [B, C]
        # Past the truth's end stands EOS or PAD, which differs from every token before an output's end.
        differs = (prefix != targets).long()
        before = (differs.cumsum(1) - differs).gather(1, kept)
        stopped = before + (length - kept).clamp(min=0)
        slip = branches.tokens != targets.gather(1, cells).unsqueeze(-1)
        cut = (length - batch.lengths.unsqueeze(1)).clamp(min=0)  # [B, 1]
        counts = torch.where(ends_here(branches, batch), stopped.unsqueeze(-1), (before + cut).unsqueeze(-1) + slip)
        return as_costs(counts, targets, vocab, self.normalised)


@checked
class ExactMatch(TokenCost):
    """0 where the output before its end is the target before its end, else 1."""

    name: ClassVar[str] = "exact"

    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = self.bound
        truth = targets.view(len(targets), *[1] * (outputs.ndim - 2), -1)
        ours, theirs = before_end(outputs, vocab), before_end(truth, vocab)
        wrong = (ours != theirs) | (ours & (outputs != truth))
        return wrong.any(-1).to(torch.get_default_dtype())
