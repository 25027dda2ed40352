"""Completions of branches by the truth: from the same position on, and from where the edit distance is least.

The columns of the prefix are advanced once for all branches of a program, and each branch takes them at its cell.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Float, Int
from torch import Tensor

from searnn.fast.gpu.distances import advance, store_errors
from searnn.fast.gpu.tokens import (
    find,
    find_each,
    launch_branches,
    read_branches,
    read_truth,
    shape_settings,
    write_joined,
)
from searnn.types import Batch, Branches


@triton.jit(do_not_specialize=["branches", "candidates", "width", "pad", "eos"])
def _copy(prefix, cells, tokens, limits, targets, out, branches, candidates, width, pad, eos,
          ends: tl.constexpr, lanes: tl.constexpr):  # fmt: skip
    """Branches that go on with the truth from the same position on."""
    example, place, real, cell, token, limit = read_branches(cells, tokens, limits, branches, candidates, lanes)
    prefix += example * width
    targets += example * width
    out += place * width
    write_joined(out, prefix, targets, cell, token, cell + 1, limit, width, pad, eos, pad, real, ends)


@triton.jit(do_not_specialize=["branches", "candidates", "width", "pad", "eos", "filler"])
def _optimal(prefix, cells, tokens, limits, targets, out, branches, candidates, width, pad, eos, filler,
             costs: tl.constexpr, normalised: tl.constexpr, ends: tl.constexpr, lanes: tl.constexpr,
             word: tl.constexpr, most: tl.constexpr, span: tl.constexpr):  # fmt: skip
    """Branches that go on where the edit distance is least: what they are, or with `costs` what they cost."""
    example, place, real, asked, token, limit = read_branches(cells, tokens, limits, branches, candidates, lanes)
    prefix += example * width
    targets += example * width
    truth, length, bits = read_truth(targets, width, pad, eos, word, span)
    cell = asked
    if costs:
        cell = tl.minimum(tl.maximum(asked, 0), width - 1)  # those outside are masked
    up = tl.full((), -1, word)
    down = tl.full((), 0, word)
    written = tl.full((), 0, tl.int32)  # tokens of the prefix so far
    distance = length
    my_up = tl.full((lanes,), -1, word)  # of `prefix[:cell]`
    my_down = tl.zeros((lanes,), word)
    my_written = tl.zeros((lanes,), tl.int32)
    my_distance = my_written + distance
    alive = length >= 0
    for position in range(width):
        mine = tl.load(prefix + position).to(tl.int32)
        alive = alive & (mine != pad) & (mine != eos)
        new_up, new_down, change = advance(up, down, find(mine, truth, bits), length.to(word))
        up = tl.where(alive, new_up, up)  # past its end a prefix stays what it was
        down = tl.where(alive, new_down, down)
        distance += tl.where(alive, change, 0)
        written += alive.to(tl.int32)
        passed = position < cell
        my_up = tl.where(passed, up, my_up)
        my_down = tl.where(passed, down, my_down)
        my_distance = tl.where(passed, distance, my_distance)
        my_written = tl.where(passed, written, my_written)
    my_up, my_down, _ = advance(my_up, my_down, find_each(token, truth, bits), length.to(word))

    # Of the distances to the first `column` tokens of the truth, plus what a completion from there on must miss.
    room = tl.maximum(tl.minimum(limit, width) - cell - 1, 0)
    reached = my_written + 1
    best = reached * 0 + (1 << 30)
    start = reached * 0
    for column in tl.static_range(most + 1):
        missing = length - column - room
        missing = tl.maximum(missing, 0) if ends else tl.abs(missing)
        total = reached + missing
        if not costs:  # of equals, the nearest to the same position, then the earlier one
            offset = column - cell - 1
            total = total * (2 * width + 4) + 2 * tl.abs(offset) + (offset > 0).to(tl.int32)
        better = (column <= length) & (total < best)
        best = tl.where(better, total, best)
        start = tl.where(better, column, start)
        if column < most:
            reached += (((my_up >> column) & 1) - ((my_down >> column) & 1)).to(tl.int32)

    if costs:
        over = (my_written < cell) | (asked >= limit) | (token == pad) | (token == eos)
        store_errors(out + place, tl.where(over, my_distance, best), length, real, normalised)
    else:
        start = tl.where(cell < 0, 0, start)  # nothing is written yet: the whole truth
        out += place * width
        write_joined(out, prefix, targets, cell, token, start, limit, width, pad, eos, filler, real, ends)


def copy_target(branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"]:
    """What `CopyTarget` completes."""
    out = branches.tokens.new_empty(*branches.tokens.shape, batch.targets.shape[1])
    return launch_branches(_copy, branches, batch, out, ends=batch.vocabulary.eos is not None)


def optimal_edit(branches: Branches, batch: Batch, filler: int) -> Int[Tensor, "B C K T"]:
    """What `OptimalEdit` completes, with `filler` where an output of known length has room left."""
    out = branches.tokens.new_empty(*branches.tokens.shape, batch.targets.shape[1])
    return _optimally(branches, batch, out, filler, costs=False, normalised=False)


def optimal_costs(branches: Branches, batch: Batch, normalised: bool, dtype: torch.dtype) -> Float[Tensor, "B C K"]:
    """The edit distance of what `OptimalEdit` completes, divided by the true length if `normalised`."""
    out = torch.empty(branches.tokens.shape, dtype=dtype, device=branches.tokens.device)
    return _optimally(branches, batch, out, 0, costs=True, normalised=normalised)


def _optimally(branches: Branches, batch: Batch, out: Tensor, filler: int, **settings: bool) -> Tensor:
    settings["ends"] = batch.vocabulary.eos is not None
    return launch_branches(_optimal, branches, batch, out, filler, **shape_settings(batch.targets.shape[1]), **settings)
