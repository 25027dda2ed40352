"""Edit distance cost: insertions, deletions and substitutions between output and target."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.costs.common import Normalised, TokenCost, as_costs, ends_here
from searnn.engine import replaceable
from searnn.sequences.edit import FAR, edit_distance, least_rest, prefix_distances
from searnn.sequences.ends import at_cells, output_lengths
from searnn.settings import checked
from searnn.types import Batch, Branches, Vocabulary


@checked
class EditDistance(TokenCost):
    """The edit distance with unit costs, divided by the true length (the paper's cost for spelling) if `normalised`."""

    normalised: Normalised = True
    name: ClassVar[str] = "edit"

    @replaceable
    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = self.bound
        return as_costs(edit_distance(outputs, targets, vocab), targets, vocab, self.normalised)

    @replaceable
    def closed_form(self, oracle: str, branches: Branches, batch: Batch) -> Float[Tensor, "B C K"] | None:
        """The cost of the oracle's completion of every branch, without building it; None where there is no such form.

        With prefix p, token a, completion s and truth y it is `min_j edit(p·a, y[:j]) + edit(s, y[j:])`. The second
        term grows by at most one when j falls by one, so insertions after the token never pay and the row of `p·a`
        need not be closed under them: each column comes from p by a match, or by a mistake whatever the token is.
        """
        vocab = self.bound
        if oracle not in ("copy", "optimal-edit") or vocab != batch.vocabulary:
            return None
        targets, width = batch.targets, batch.targets.shape[1]
        cells = branches.cells.clamp(0, width - 1)  # those outside are masked
        rest = least_rest(cells, batch) if oracle == "optimal-edit" else _copied_rest(cells, batch)
        rows = at_cells(prefix_distances(branches.prefix, targets, vocab), cells)  # [B, C, T+1]
        mistaken = (rows + 1 + rest).amin(-1).minimum((rows[..., :-1] + 1 + rest[..., 1:]).amin(-1))  # [B, C]
        matched = (rows[..., :-1] + rest[..., 1:]).unsqueeze(-1)  # [B, C, T, 1]
        going = mistaken.unsqueeze(-1).expand_as(branches.tokens)
        for column in range(width):  # a minimum over [B, C, K, T] is slower, and needs T times the memory
            same = branches.tokens == targets[:, column, None, None]
            going = going.minimum(torch.where(same, matched[:, :, column], FAR))
        ends = output_lengths(targets, vocab)
        stopped = rows.gather(-1, ends.view(-1, 1, 1).expand(-1, cells.shape[1], 1))
        return as_costs(torch.where(ends_here(branches, batch), stopped, going), targets, vocab, self.normalised)


def _copied_rest(cells: Int[Tensor, "B C"], batch: Batch) -> Int[Tensor, "B C M"]:
    """The distance between the truth copied after each cell, cut at the limit, and the truth from column j on.

    Suffixes are prefixes of the reversed sequence: one table holds them all. Columns past the truth's end are `FAR`.
    """
    targets, vocab = batch.targets, batch.vocabulary
    length = output_lengths(targets, vocab)
    copied = length.minimum(batch.lengths)
    table = prefix_distances(_reverse(targets, copied, vocab), _reverse(targets, length, vocab), vocab)
    suffixes = at_cells(table, (copied.unsqueeze(1) - cells - 1).clamp(min=0))  # [B, C, T+1]
    left = length.unsqueeze(1) - torch.arange(suffixes.shape[-1], device=cells.device)  # [B, T+1]
    rest = suffixes.gather(-1, left.clamp(min=0).unsqueeze(1).expand_as(suffixes))
    return rest.masked_fill((left < 0).unsqueeze(1), FAR)


def _reverse(tokens: Int[Tensor, "B T"], lengths: Int[Tensor, "B"], vocab: Vocabulary) -> Int[Tensor, "B T"]:
    """The first `lengths` tokens from the last to the first, then PAD."""
    source = lengths.unsqueeze(1) - 1 - torch.arange(tokens.shape[1], device=tokens.device)
    return tokens.gather(1, source.clamp(min=0)).masked_fill(source < 0, vocab.pad)
