"""The optimal reference policy for chunk F1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from searnn.sequences.chunks import Chunks, check_tags, find_chunks, tag_codes
from searnn.sequences.ends import before_end, join_suffix
from searnn.types import Batch, Branches, Vocabulary


@dataclass(frozen=True)
class ChunkOracle:
    """Copies every chunk of the truth that can still be right, and writes O in place of the others.

    A chunk more that is right never lowers F1, and a wrong one never raises it. A true chunk that began before the
    next cell can still be right if the last chunk written began with it and has its type; one that begins later can if
    there is room for it. Where a chunk begins by I-x and an x is open, B-x is written if there is such a tag. If there
    is no O the truth is copied, which need not be optimal.
    """

    tags: tuple[str, ...] = ()
    name: ClassVar[str] = "chunk-f1"

    def __post_init__(self) -> None:
        check_tags("ChunkOracle", self.tags)

    def complete(self, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"]:
        vocab, cells, width = batch.vocabulary, branches.cells, batch.targets.shape[1]
        table = tag_codes(self.tags, vocab, cells.device)
        outside = self._outside(vocab)
        if outside is not None:
            batch = _without_cut_chunks(batch, table, outside)
        codes = table[batch.targets] * before_end(batch.targets, vocab)
        truth = find_chunks(codes)
        types, began = _last_chunk(branches, table)

        following = (cells + 1).clamp(max=width - 1)
        same = types == truth.types.gather(1, following).unsqueeze(-1)
        starts = truth.starts.gather(1, following).unsqueeze(-1)
        goes_on = ~starts & (truth.types.gather(1, following) > 0).unsqueeze(-1)
        lost = goes_on & ~(same & (began == _beginnings(truth).gather(1, following).unsqueeze(-1)))
        code = codes.gather(1, following).unsqueeze(-1)
        opening = (table == code + 1) & (code & 1 == 1)  # [B, C, V]: the B-x of an I-x
        parted = starts & same & opening.any(-1, keepdim=True)

        positions = torch.arange(width, device=cells.device)
        copied = (cells + 1).unsqueeze(-1).expand_as(types)
        outputs = join_suffix(branches.prefix, cells, branches.tokens, copied, batch)
        written = outputs != vocab.pad  # after the token EOS nothing is
        here = parted.unsqueeze(-1) & (positions == cells.unsqueeze(-1) + 1).unsqueeze(2)
        outputs = torch.where(here & written, opening.int().argmax(-1)[..., None, None], outputs)
        if outside is None:
            return outputs
        rest = (positions > cells.unsqueeze(-1)) & (positions < truth.stops.gather(1, following).unsqueeze(-1))
        return outputs.masked_fill(lost.unsqueeze(-1) & rest.unsqueeze(2) & written, outside)

    def _outside(self, vocab: Vocabulary) -> int | None:
        """The token of O."""
        tokens = (token for token in vocab.choosable if token != vocab.eos)
        return next((token for token in tokens if self.tags[token] == "O"), None)


def _without_cut_chunks(batch: Batch, table: Int[Tensor, "V"], outside: int) -> Batch:
    """The batch with O in place of the true chunks that end beyond the room."""
    truth = find_chunks(table[batch.targets] * before_end(batch.targets, batch.vocabulary))
    cut: Bool[Tensor, "B T"] = (truth.types > 0) & (truth.stops > batch.lengths.unsqueeze(1))
    return replace(batch, targets=batch.targets.masked_fill(cut, outside))


def _beginnings(chunks: Chunks) -> Int[Tensor, "B T"]:
    """The first cell of the chunk that each cell lies in; the one before it where a cell lies in none."""
    positions = torch.arange(chunks.starts.shape[1], device=chunks.starts.device)
    return torch.where(chunks.starts, positions, 0).cummax(1).values


def _last_chunk(branches: Branches, table: Int[Tensor, "V"]) -> tuple[Int[Tensor, "B C K"], Int[Tensor, "B C K"]]:
    """The type of the chunk that ends with each branch's token, 0 where none does, and its first cell."""
    cells = branches.cells.unsqueeze(-1)
    written = find_chunks(table[branches.prefix])
    before = (branches.cells - 1).clamp(0, branches.prefix.shape[1] - 1)  # at cell 0 either way a chunk begins there
    codes = table[branches.tokens.clamp(0, len(table) - 1)].masked_fill(cells < 0, 0)  # -1: nothing is written yet
    types = (codes + 1) >> 1
    continued = (codes & 1 == 1) & (types == written.types.gather(1, before).unsqueeze(-1))
    return types, torch.where(continued, _beginnings(written).gather(1, before).unsqueeze(-1), cells)
