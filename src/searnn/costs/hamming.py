"""Hamming cost: how many positions differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor, where

from searnn.costs.common import Normalised, as_costs, bound, check_vocab, ends_here
from searnn.engine import replaceable
from searnn.sequences.ends import before_end, output_lengths
from searnn.settings import check
from searnn.types import Batch, Branches, Vocabulary


@dataclass(frozen=True)
class Hamming:
    """The number of positions that differ; a position that only output or target has counts as wrong.

    `normalised` divides by the true length. What stands before EOS is compared: the EOS cell itself is not counted.
    """

    vocab: Vocabulary | None = None
    normalised: Normalised = False
    name: ClassVar[str] = "hamming"

    def __post_init__(self) -> None:
        check_vocab("Hamming", self.vocab)
        check(self)

    @replaceable
    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = bound("Hamming", self.vocab)
        truth = targets.view(len(targets), *[1] * (outputs.ndim - 2), -1)
        ours, theirs = before_end(outputs, vocab), before_end(truth, vocab)
        wrong = (ours | theirs) & ~(ours & theirs & (outputs == truth))
        return as_costs(wrong.sum(-1), targets, vocab, self.normalised)

    @replaceable
    def closed_form(self, oracle: str, branches: Branches, batch: Batch) -> Float[Tensor, "B C K"] | None:
        """The cost of the oracle's completion of every branch, without building it; None where there is no such form.

        After a copied truth, only the prefix, the token and what the room cuts off can be wrong.
        """
        vocab = bound("Hamming", self.vocab)
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
        counts = where(ends_here(branches, batch), stopped.unsqueeze(-1), (before + cut).unsqueeze(-1) + slip)
        return as_costs(counts, targets, vocab, self.normalised)
