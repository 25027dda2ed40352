"""N-grams that outputs share with the truth, orders 1 to 4, and BLEU and GLEU made from them: one lane per output.

Bit j of a word stands for position j of the truth. An n-gram is known by the place of its last token: `runs` are the
places of those that end with the output's last token, `left` the places that no n-gram has taken yet.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Float, Int
from torch import Tensor

from searnn.fast.gpu.tokens import find_lanes, launch_outputs, read_truth, rows_here
from searnn.types import Vocabulary


@triton.jit
def take_place(runs, left):
    """Whether an n-gram finds a place among those left, and what is left after it took the first."""
    free = runs & left
    return (free != 0).to(tl.int32), left ^ (free & -free)


@triton.jit
def precision(shared, total, fewer: tl.constexpr, more: tl.constexpr):
    """The share of the n-grams of one order that match, with `more` (1, or 0) added to both numbers."""
    counts = tl.maximum(tl.maximum(total - fewer, 0), 1 - more)
    return (shared + more).to(tl.float64) / (counts + more).to(tl.float64)


@triton.jit
def bleu(m1, m2, m3, m4, total, reference, definition: tl.constexpr, order: tl.constexpr):
    """Smoothed BLEU, in float64, of outputs of `total` tokens with these matches of each order."""
    product = precision(m1, total, 0, 0 if definition == "lin-och" else 1)
    if order > 1:
        product *= precision(m2, total, 1, 1)
    if order > 2:
        product *= precision(m3, total, 2, 1)
    if order > 3:
        product *= precision(m4, total, 3, 1)
    worthless = (total == 0) | (product == 0)
    if definition == "leblond":
        worthless = worthless | (m1 == 0)
    short = 1.0 - tl.maximum(reference, 1).to(tl.float64) / tl.maximum(total, 1).to(tl.float64)
    value = tl.exp(tl.log(tl.where(worthless, 1.0, product)) / order + tl.minimum(short, 0.0))
    return tl.where(worthless, 0.0, value)


@triton.jit
def gleu(m1, m2, m3, m4, total, reference, order: tl.constexpr):
    """GLEU, in float64, of outputs of `total` tokens with these matches of each order."""
    longer = tl.maximum(total, reference)
    matches = m1
    counts = longer
    if order > 1:
        matches += m2
        counts += tl.maximum(longer - 1, 0)
    if order > 2:
        matches += m3
        counts += tl.maximum(longer - 2, 0)
    if order > 3:
        matches += m4
        counts += tl.maximum(longer - 3, 0)
    return tl.where(longer == 0, 1.0, matches.to(tl.float64) / tl.maximum(counts, 1).to(tl.float64))


@triton.jit
def score(m1, m2, m3, m4, total, reference, measure: tl.constexpr, order: tl.constexpr):
    """GLEU, or BLEU by the definition that the measure names."""
    if measure == "gleu":
        value = gleu(m1, m2, m3, m4, total, reference, order)
    else:
        value = bleu(m1, m2, m3, m4, total, reference, measure, order)
    return value


@triton.jit(do_not_specialize=["rows", "cells", "width", "pad", "eos", "all_rows", "never"])
def _matches(outputs, targets, out, rows, cells, width, pad, eos, all_rows, never, measure: tl.constexpr,
             order: tl.constexpr, lanes: tl.constexpr, word: tl.constexpr, most: tl.constexpr,
             span: tl.constexpr):  # fmt: skip
    """The matches of finished outputs, as they are or as the cost that the measure makes of them."""
    example, _, place, real = rows_here(rows, lanes)
    targets += example * width
    truth, reference, bits = read_truth(targets, width, pad, eos, word, span)
    counted = tl.sum(tl.where(truth != never, bits, tl.zeros_like(bits)), 0)  # positions that may match
    runs1 = tl.zeros((lanes,), word)
    runs2, runs3, runs4 = runs1, runs1, runs1
    left1 = tl.full((lanes,), -1, word)
    left2, left3, left4 = left1, left1, left1
    m1 = tl.zeros((lanes,), tl.int32)
    m2, m3, m4, total = m1, m1, m1, m1
    alive = real
    for position in range(cells):
        token = tl.load(outputs + place * cells + position, mask=alive, other=pad).to(tl.int32)
        alive = alive & (token != pad) & (token != eos)
        total += alive.to(tl.int32)
        mask = find_lanes(token, targets, width, word, most) & counted
        mask = tl.where(alive, mask, tl.zeros_like(mask))
        if order > 3:
            runs4 = (runs3 << 1) & mask
            found, left4 = take_place(runs4, left4)
            m4 += found
        if order > 2:
            runs3 = (runs2 << 1) & mask
            found, left3 = take_place(runs3, left3)
            m3 += found
        if order > 1:
            runs2 = (runs1 << 1) & mask
            found, left2 = take_place(runs2, left2)
            m2 += found
        runs1 = mask
        found, left1 = take_place(runs1, left1)
        m1 += found
    if measure == "counts":
        tl.store(out + place, m1.to(tl.int64), mask=real)
        if order > 1:
            tl.store(out + all_rows + place, m2.to(tl.int64), mask=real)
        if order > 2:
            tl.store(out + 2 * all_rows + place, m3.to(tl.int64), mask=real)
        if order > 3:
            tl.store(out + 3 * all_rows + place, m4.to(tl.int64), mask=real)
    else:
        cost = 1.0 - score(m1, m2, m3, m4, total, reference, measure, order)
        tl.store(out + place, cost.to(out.dtype.element_ty), mask=real)


def count_matches(
    outputs: Int[Tensor, "B N T"], targets: Int[Tensor, "B T"], vocab: Vocabulary, order: int, never: int | None
) -> Int[Tensor, "O B N"]:
    """How many n-grams of each order from 1 to O an output shares with its target, where each place serves once."""
    out = torch.empty(order, *outputs.shape[:-1], dtype=torch.int64, device=outputs.device)
    return _run(outputs, targets, out, vocab, never, measure="counts", order=order)


def ngram_costs(
    outputs: Int[Tensor, "B *N T"],
    targets: Int[Tensor, "B T"],
    vocab: Vocabulary,
    measure: str,
    order: int,
    never: int | None,
    dtype: torch.dtype,
) -> Float[Tensor, "B *N"]:
    """One minus BLEU, by a definition as the `measure`, or minus "gleu"."""
    out = torch.empty(outputs.shape[:-1], dtype=dtype, device=outputs.device)
    return _run(outputs, targets, out, vocab, never, measure=measure, order=order)


def _run(
    outputs: Tensor, targets: Tensor, out: Tensor, vocab: Vocabulary, never: int | None, **settings: str | int
) -> Tensor:
    all_rows, never = outputs[..., 0].numel(), -1 if never is None else never
    return launch_outputs(_matches, outputs, targets, out, vocab, all_rows, never, **settings)
