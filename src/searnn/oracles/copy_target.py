"""The paper's default reference policy: copy the truth, whatever was written before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Int
from torch import Tensor

from searnn.engine import replaceable
from searnn.sequences.ends import join_suffix
from searnn.types import Batch, Branches


@dataclass(frozen=True)
class CopyTarget:
    """Completes with the truth from the same position on, which is optimal for Hamming cost.

    Past the truth's end an output of free length ends at once, with EOS if there is room.
    """

    name: ClassVar[str] = "copy"

    @replaceable
    def complete(self, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"]:
        starts = (branches.cells + 1).unsqueeze(-1).expand_as(branches.tokens)
        return join_suffix(branches.prefix, branches.cells, branches.tokens, starts, batch)
