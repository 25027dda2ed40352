"""Roll-outs: all branches of all cells advance in lockstep, in waves that fit a memory budget.

What is planned here is only which rows run together and when they leave; the results do not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from searnn import tree
from searnn.devices import default_budget, reads_are_free
from searnn.engine import replaceable
from searnn.interfaces import Encoded, State
from searnn.models.stepping import row_bytes
from searnn.types import Batch, Branches, Rows, SearnnError


@dataclass(frozen=True)
class Wave:
    """Rows that run together: rows `slots[i]` (of the C·K of an example) of examples `examples[i]`."""

    examples: Int[Tensor, "N"]
    slots: Int[Tensor, "N R"]
    widths: list[int]  # per step, how many rows can still be unfinished


Finish = Callable[[Encoded, State, Rows, Wave], Int[Tensor, "N R T"]]


@replaceable
def open_rows(
    branches: Branches, wanted: Bool[Tensor, "B C K"], lengths: Int[Tensor, "B"], steps: int | None, pad: int
) -> Rows:
    """Every branch as far as it is given: `prefix[:cell]`, the token, then PAD, with at most `steps` tokens to come.

    One that is not wanted has no room for any.
    """
    cells = branches.cells.unsqueeze(-1).expand_as(branches.tokens)
    ahead = torch.arange(branches.prefix.shape[1], device=cells.device) - branches.cells[:, :, None, None]
    outputs = torch.where(ahead < 0, branches.prefix[:, None, None, :], pad)
    outputs = torch.where(ahead == 0, branches.tokens.unsqueeze(-1), outputs)
    room = (lengths.view(-1, 1, 1) - cells - 1).clamp(min=0, max=steps) * wanted
    return Rows(outputs.flatten(1, 2), cells.flatten(1), (cells + 1 + room).flatten(1))


def advance_branches(
    encoded: Encoded,
    branches: Branches,
    batch: Batch,
    finish: Finish,
    *,
    needed: Bool[Tensor, "B C K"] | None = None,
    steps: int | None = None,
    budget: int | None = None,
    copies: int = 1,
) -> Int[Tensor, "B C K T"]:
    """Let `finish` complete the branches, wave by wave.

    `needed` leaves out branches (they come back as given), `steps` limits how many tokens are added to each, `budget`
    is the most bytes that rows running together may take, each `copies` times (the width of a beam).
    """
    model, memory, trail = encoded
    (examples, cells, candidates), device = branches.tokens.shape, branches.tokens.device
    wanted = branches.valid if needed is None else branches.valid & needed.to(device, non_blocking=True)
    rows = open_rows(branches, wanted, batch.lengths, steps, model.vocab.pad)
    room = (rows.limits - rows.cells - 1).clamp(min=0)
    if model.vocab.eos is not None:
        room = room * (branches.tokens != model.vocab.eos).flatten(1)
    ordered = room.sort(descending=True, stable=True)
    known = ordered.values if reads_are_free(device) else most_room(batch, cells, candidates, steps, needed)
    budget = default_budget(device) if budget is None else budget
    if budget < 1:
        raise SearnnError(f"the memory budget is {budget} bytes, it must be at least 1")
    outputs, length = rows.outputs, rows.outputs.shape[-1]
    most_rows = max(1, budget // (copies * row_bytes(model, memory, length)))
    for wave in waves(known.cpu(), ordered.indices, most_rows):
        held = (memory, trail, branches.cells, room)
        if len(wave.examples) < examples:
            held = tree.take_examples(held, wave.examples)
        memory_, trail_, cells_, room_ = held
        at = cells_.gather(1, wave.slots // candidates)
        until = at + 1 + room_.gather(1, wave.slots)  # rows that need not run have no room
        here = wave.examples.unsqueeze(1)
        forked, state = model.fork(memory_, trail_, at)
        running = Rows(outputs[here, wave.slots], at, until)
        outputs[here, wave.slots] = finish(Encoded(model, forked), state, running, wave)
    return outputs.view(examples, cells, candidates, -1)


def most_room(
    batch: Batch, cells: int, candidates: int, steps: int | None, needed: Bool[Tensor, "B C K"] | None
) -> Int[Tensor, "B CK"]:
    """A bound on the room of each row, largest first, from what the host knows: cells are distinct and ascending."""
    lengths = torch.tensor(batch.limits()).unsqueeze(1)
    room = (lengths - 1 - torch.arange(cells)).clamp(min=0, max=steps)
    bound = room.repeat_interleave(candidates, dim=1)  # [B, CK], largest first
    if needed is None or not reads_are_free(needed.device):
        return bound
    ranks = torch.arange(bound.shape[1])
    return bound.masked_fill(ranks >= needed.flatten(1).sum(1, keepdim=True), 0)


def waves(room: Int[Tensor, "B CK"], order: Int[Tensor, "B CK"], most_rows: int) -> Iterator[Wave]:
    """Cut the rows into waves of at most `most_rows`, of examples with about as many rows each.

    `room` (on the host) is how many tokens the rows may still take, largest first; `order` says which rows these are.
    """
    rows = (room > 0).sum(1)
    by_rows = rows.argsort(descending=True, stable=True).tolist()
    counts = rows.tolist()
    first = 0
    while first < len(by_rows) and counts[by_rows[first]] > 0:
        widest = counts[by_rows[first]]
        last = first + 1
        while last < len(by_rows) and counts[by_rows[last]] > 0 and (last + 1 - first) * widest <= most_rows:
            last += 1
        together = torch.tensor(sorted(by_rows[first:last]))
        examples = on_device(together, order.device)
        for low in range(0, widest, most_rows):
            high = min(low + most_rows, widest)
            left = room[together, low:high]
            ahead = torch.arange(int(left.max()))
            widths = (left.unsqueeze(-1) > ahead).sum(1).amax(0).tolist()
            yield Wave(examples, order[examples, low:high], widths)
        first = last


def on_device(ascending: Int[Tensor, "N"], device: torch.device) -> Int[Tensor, "N"]:
    """Numbers known on the host: made on the device where they follow on one another, else copied there."""
    low, high = int(ascending[0]), int(ascending[-1]) + 1
    if high - low == len(ascending):
        return torch.arange(low, high, device=device)
    return ascending.to(device, non_blocking=True)
