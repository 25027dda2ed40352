"""The best suffix of the truth after every branch: a program has some candidates of one cell, and all suffixes.

The n-grams are those of `searnn.oracles.best_suffix`: inside the copied suffix one serves itself, the others take
their places in what is left of the truth, those of the prefix once for all candidates.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Int
from torch import Tensor

from searnn.fast.gpu.ngrams import score, take_place
from searnn.fast.gpu.tokens import end_tokens, find, find_each, launch, read_truth, rows_here, write_joined
from searnn.types import Batch, Branches

LANES = 16  # candidates of a program, each with all suffixes


@triton.jit
def _below(place):
    """All bits below a place; those past the last of a word mean nothing, and a longer shift none at all."""
    return (tl.full((), 1, tl.int64) << tl.minimum(place, 62).to(tl.int64)) - 1


@triton.jit
def _bits(words):
    """How many bits are set, of non-negative words: sums of neighbouring 1, 2, 4 bits, then of all bytes at once."""
    pairs = words - ((words >> 1) & 0x5555555555555555)
    fours = (pairs & 0x3333333333333333) + ((pairs >> 2) & 0x3333333333333333)
    return ((((fours + (fours >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101) >> 56).to(tl.int32)


@triton.jit
def _outside(grams, starts, copied, fewer: tl.constexpr):
    """The places of n-grams that do not lie inside the suffix copied from each start on."""
    return grams & ~(_below(starts + copied) & ~_below(starts + fewer))


@triton.jit
def _truth_places(targets, starts, after: tl.constexpr, width, truth, bits):
    """Where the truth has the token that comes `after` each start."""
    inside = starts + after < width
    places = find_each(tl.load(targets + starts + after, mask=inside, other=0).to(tl.int32), truth, bits)
    return tl.where(inside, places, tl.zeros_like(places))


@triton.jit(do_not_specialize=["groups", "candidates", "width", "pad", "eos", "never"])
def _complete(prefix, cells, tokens, limits, targets, out, groups, candidates, width, pad, eos, never,
              same: tl.constexpr, measure: tl.constexpr, order: tl.constexpr, lanes: tl.constexpr,
              span: tl.constexpr):  # fmt: skip
    """Branches that go on with the suffix that scores best."""
    group, _candidate, place, real = rows_here(candidates, lanes)  # a group is an example and one of its cells
    example = group // groups
    prefix += example * width
    targets += example * width
    cell = tl.load(cells + group).to(tl.int32)
    token = tl.load(tokens + place, mask=real, other=0).to(tl.int32)
    limit = tl.load(limits + example).to(tl.int32)
    truth, length, bits = read_truth(targets, width, pad, eos, tl.int64, span)
    bits = tl.where(truth != never, bits, tl.zeros_like(bits))
    counted = tl.sum(bits, 0)

    starts = tl.arange(0, span)
    copied = tl.minimum(tl.maximum(length - starts, 0), tl.maximum(limit - cell - 1, 0))
    grams2 = (counted << 1) & counted
    grams3 = (grams2 << 1) & counted
    grams4 = (grams3 << 1) & counted
    left1 = _outside(counted, starts, copied, 0)
    left2 = _outside(grams2, starts, copied, 1)
    left3 = _outside(grams3, starts, copied, 2)
    left4 = _outside(grams4, starts, copied, 3)
    runs1 = tl.full((), 0, tl.int64)
    runs2, runs3, runs4 = runs1, runs1, runs1
    for position in range(tl.minimum(tl.maximum(cell, 0), width)):
        mask = find(tl.load(prefix + position).to(tl.int32), truth, bits)
        if order > 1:
            runs4 = (runs3 << 1) & mask
            runs3 = (runs2 << 1) & mask
            runs2 = (runs1 << 1) & mask
            _, left2 = take_place(runs2, left2)
            _, left3 = take_place(runs3, left3)
            _, left4 = take_place(runs4, left4)
        runs1 = mask
        _, left1 = take_place(runs1, left1)

    ends1 = find_each(token, truth, bits)  # of the n-grams that end with the token
    m1, _ = take_place(ends1[:, None], left1[None, :])
    m1 += (_bits(counted) - _bits(left1))[None, :]
    m2, m3, m4 = m1, m1, m1
    if order > 1:
        ends2 = ((runs1 << 1) & ends1)[:, None]
        ends3 = ((runs2 << 1) & ends1)[:, None]
        ends4 = ((runs3 << 1) & ends1)[:, None]
        ends1 = ends1[:, None]
        # Where the truth has the first 1 to 3 tokens of each suffix.
        none = tl.zeros_like(left1)
        run1 = _truth_places(targets, starts, 0, width, truth, bits)
        run2 = (run1 << 1) & _truth_places(targets, starts, 1, width, truth, bits)
        run3 = (run2 << 1) & _truth_places(targets, starts, 2, width, truth, bits)
        run1 = tl.where(copied > 0, run1, none)[None, :]
        run2 = tl.where(copied > 1, run2, none)[None, :]
        run3 = tl.where(copied > 2, run3, none)[None, :]

        m2, free = take_place(ends2, left2[None, :])
        more, free = take_place((ends1 << 1) & run1, free)
        m2 += more + (_bits(grams2) - _bits(left2))[None, :]

        m3, free = take_place(ends3, left3[None, :])
        more, free = take_place((ends2 << 1) & run1, free)
        m3 += more
        more, free = take_place((ends1 << 2) & run2, free)
        m3 += more + (_bits(grams3) - _bits(left3))[None, :]

        m4, free = take_place(ends4, left4[None, :])
        more, free = take_place((ends3 << 1) & run1, free)
        m4 += more
        more, free = take_place((ends2 << 2) & run2, free)
        m4 += more
        more, free = take_place((ends1 << 3) & run3, free)
        m4 += more + (_bits(grams4) - _bits(left4))[None, :]

    total = tl.maximum(cell + 1 + copied, 0)[None, :]
    scores = score(m1, m2, m3, m4, total, length, measure, order)
    scores = tl.where((starts > length)[None, :], -1.0, scores)
    best = tl.max(scores, 1)[:, None]
    start = tl.max(tl.where(scores >= best - same, starts[None, :], 0), 1)  # of equals the shortest suffix
    start = tl.where(cell < 0, 0, start)  # nothing is written yet: the whole truth
    write_joined(out + place * width, prefix, targets, cell, token, start, limit, width, pad, eos, pad, real, True)


def best_suffix(
    branches: Branches, batch: Batch, measure: str, order: int, never: int | None, same: float
) -> Int[Tensor, "B C K T"]:
    """What `BestSuffix` completes by "gleu" or a definition of BLEU, of order 1 or 4; scores `same` apart are equal."""
    examples, cells, candidates = branches.tokens.shape
    width = batch.targets.shape[1]
    out = branches.tokens.new_empty(*branches.tokens.shape, width)
    tensors = (branches.prefix, branches.cells, branches.tokens, batch.lengths, batch.targets)
    never = -1 if never is None else never
    sizes = (cells, candidates, width, *end_tokens(batch.vocabulary), never)
    settings = {"measure": measure, "order": order, "same": same, "lanes": LANES}
    settings["span"] = triton.next_power_of_2(width + 1)
    programs = examples * cells * triton.cdiv(candidates, LANES)
    launch(_complete, programs, tensors, out, *sizes, warps=4, **settings)
    return out
