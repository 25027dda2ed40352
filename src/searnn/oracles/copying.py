"""Reference policies that copy the truth: from the same position on, or from where the edit distance is least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from searnn.engine import replaceable
from searnn.sequences.edit import extend_distances, least_rest, prefix_distances
from searnn.sequences.ends import at_cells, join_suffix
from searnn.types import Batch, Branches


@dataclass(frozen=True)
class CopyTarget:
    """The paper's default: completes with the truth from the same position on, which is optimal for Hamming cost.

    Past the truth's end an output of free length ends at once, with EOS if there is room.
    """

    name: ClassVar[str] = "copy"

    @replaceable
    def complete(self, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"]:
        starts = (branches.cells + 1).unsqueeze(-1).expand_as(branches.tokens)
        return join_suffix(branches.prefix, branches.cells, branches.tokens, starts, batch)


@dataclass(frozen=True)
class OptimalEdit:
    """Completes with the suffix of the truth that makes the edit distance least, as Sabour et al. (2019) do.

    With d[j] the distance between what is written and the first j of L true tokens, and `room` cells left, it is
    `min_j d[j] + max(0, L - j - room)` where the output ends by itself (copy from j on, EOS at the truth's end), and
    `min_j d[j] + |L - j - room|` where its length is known (copy from j on, then any token: the first choosable one).
    Ties: the j nearest to the same position, then the smaller j. Where the known length is the truth's own, copying
    from the same position on is always among the best, so this is `CopyTarget`.
    """

    name: ClassVar[str] = "optimal-edit"

    @replaceable
    def complete(self, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"]:
        vocab, targets, cells = batch.vocabulary, batch.targets, branches.cells
        width = targets.shape[1]
        table = prefix_distances(branches.prefix, targets, vocab)
        rows = at_cells(table, cells.clamp(0, width))
        distances = extend_distances(rows, branches.tokens, targets) + least_rest(cells, batch).unsqueeze(2)
        away = (torch.arange(width + 1, device=cells.device) - (cells + 1).unsqueeze(-1)).abs()  # [B, C, T+1]
        starts = (distances * (width + 1) + away.unsqueeze(2)).argmin(-1)  # [B, C, K], the first of equals
        starts = starts.masked_fill((cells < 0).unsqueeze(-1), 0)  # nothing is written yet: the whole truth
        outputs = join_suffix(branches.prefix, cells, branches.tokens, starts, batch)
        if vocab.eos is not None:
            return outputs
        positions = torch.arange(width, device=cells.device)
        open_cells = (positions > cells.unsqueeze(-1)) & (positions < batch.lengths.view(-1, 1, 1))  # [B, C, T]
        return torch.where((outputs == vocab.pad) & open_cells.unsqueeze(2), vocab.choosable[0], outputs)
