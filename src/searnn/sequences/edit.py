"""Edit distance (unit costs) on tensors: of finished outputs, and of every prefix, so that branches share their rows.

The distance of two sequences is read column by column (`targets[:j]`) from rows that grow by one output token:
`row'[j] = min(row[j-1] + (token != targets[j-1]), row[j] + 1, row'[j-1] + 1)`.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from searnn.engine import replaceable
from searnn.sequences.ends import before_end, output_lengths
from searnn.types import Batch, Vocabulary

WIDEST = 62  # bits of an int64 that a sum of two column masks leaves free of the sign
FAR = 1 << 30  # above every distance, and far enough from the end of the integers to add to


@replaceable
def edit_distance(
    outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B L"], vocab: Vocabulary
) -> Int[Tensor, "B *N"]:
    """The edit distance between what stands before the end of each output and of its example's target."""
    rows = outputs.flatten(1, -2) if outputs.ndim > 2 else outputs.unsqueeze(1)  # [B, N, T]
    work = rows.shape[1] * rows.shape[2] * targets.shape[1]
    # The table of bit masks has one entry per token id: with few rows and many ids it would cost more than it saves.
    narrow = targets.shape[1] <= WIDEST and vocab.embeddings <= max(work, 1 << 10)
    distances = (_by_bits if narrow else _by_rows)(rows, targets, vocab)
    return distances.view(outputs.shape[:-1])


def prefix_distances(
    prefix: Int[Tensor, "B T"], targets: Int[Tensor, "B L"], vocab: Vocabulary
) -> Int[Tensor, "B T+1 L+1"]:
    """The distance between `prefix[:i]` and `targets[:j]` for all i and j; rows past the prefix's end repeat the last.

    The columns are not ended: those past the target's own length mean nothing.
    """
    row = torch.arange(targets.shape[1] + 1, device=targets.device).repeat(len(targets), 1)
    alive = before_end(prefix, vocab).unsqueeze(-1)
    table = [row]
    for cell in range(prefix.shape[1]):
        row = torch.where(alive[:, cell], _advance(row, prefix[:, cell, None] != targets), row)
        table.append(row)
    return torch.stack(table, 1)


def extend_distances(
    rows: Int[Tensor, "B C M"], tokens: Int[Tensor, "B C K"], targets: Int[Tensor, "B L"]
) -> Int[Tensor, "B C K M"]:
    """One more row of M = L + 1 distances after each candidate token."""
    return _advance(rows.unsqueeze(2), tokens.unsqueeze(-1) != targets[:, None, None, :])


def least_rest(cells: Int[Tensor, "B C"], batch: Batch) -> Int[Tensor, "B C M"]:
    """The distance between the best completion that has room after `cells` and what the truth has from column j on.

    A completion of n tokens is at least as far from m tokens as their numbers differ, and copying reaches that. Where
    the output ends by itself it may take at most the room, where its length is known it takes all of it. Columns past
    the truth's end, of the M = T + 1 there are, are `FAR`.
    """
    vocab, width = batch.vocabulary, batch.targets.shape[1]
    columns = torch.arange(width + 1, device=cells.device)
    left = output_lengths(batch.targets, vocab).unsqueeze(1) - columns  # [B, T+1]
    room = (batch.lengths.clamp(max=width).unsqueeze(1) - cells - 1).clamp(min=0)
    missing = left.unsqueeze(1) - room.unsqueeze(-1)  # [B, C, T+1]
    missing = missing.abs() if vocab.eos is None else missing.clamp(min=0)
    return missing.masked_fill((left < 0).unsqueeze(1), FAR)


def _advance(row: Tensor, differs: Tensor) -> Tensor:
    """The next row of the dynamic program; insertions, which run along the row, are one cumulative minimum."""
    columns = torch.arange(row.shape[-1], device=row.device)
    stepped = torch.minimum(row[..., :-1] + differs, row[..., 1:] + 1)
    first = (row[..., :1] + 1).expand(*stepped.shape[:-1], 1)
    return torch.cat([first, stepped], -1).sub_(columns).cummin(-1).values.add_(columns)


def _by_rows(outputs: Int[Tensor, "B N T"], targets: Int[Tensor, "B L"], vocab: Vocabulary) -> Int[Tensor, "B N"]:
    """Any width: a row of L+1 distances for each output."""
    alive = before_end(outputs, vocab)
    row = torch.arange(targets.shape[1] + 1, device=targets.device).repeat(*outputs.shape[:2], 1)  # [B, N, L+1]
    for cell in range(outputs.shape[-1]):
        grown = _advance(row, outputs[..., cell, None] != targets.unsqueeze(1))
        row = torch.where(alive[..., cell, None], grown, row)
    ends = output_lengths(targets, vocab).view(-1, 1, 1).expand(*outputs.shape[:2], 1)
    return row.gather(-1, ends).squeeze(-1)


def _by_bits(outputs: Int[Tensor, "B N T"], targets: Int[Tensor, "B L"], vocab: Vocabulary) -> Int[Tensor, "B N"]:
    """Bit-parallel (Myers 1999, as Hyyrö 2003 writes it): bit j of a word holds the step between columns j and j+1.

    Columns past the target's end need no mask, carries run upwards only.
    """
    width = targets.shape[1]
    bits = (1 << torch.arange(width, device=targets.device)).expand(len(targets), -1)
    table = torch.zeros(len(targets), vocab.embeddings, dtype=torch.long, device=targets.device)
    table.scatter_add_(1, targets, bits)  # positions differ, so adding is setting bits
    same = table.gather(1, outputs.flatten(1)).view(outputs.shape).permute(2, 0, 1).contiguous()  # [T, B, N]
    length = output_lengths(targets, vocab).unsqueeze(1)  # [B, 1]
    last = before_end(outputs, vocab).long().permute(2, 0, 1).contiguous() << length  # 0 where the output has ended
    full = (1 << width) - 1
    up = torch.full(outputs.shape[:2], full, dtype=torch.long, device=outputs.device)
    down = torch.zeros_like(up)
    distance = length.repeat(1, outputs.shape[1])
    for match, bit in zip(same, last, strict=True):
        level = (((match & up) + up) ^ up) | match
        rises = ((down | ~(level | up)) << 1) | 1
        falls = (up & level) << 1
        distance += ((rises & bit) - (falls & bit)) >> length
        match = match | down
        up = (falls | ~(match | rises)) & full
        down = rises & match
    return distance
