"""Additive attention inside the kernel of whole roll-outs: what it adds to the scores of a block of rows."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

from dataclasses import dataclass

import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Bool, Float
from torch import Tensor

# Queries and keys are cut to ± this before exp(2 x), so that the product of two is finite. It changes a sum that is not
# at the flat ends of tanh only if one of its terms is beyond it and the other below -12, which no model comes near.
LARGEST = 21.0
PLACES = 32  # source positions whose mask is read together


@dataclass(frozen=True)
class Attended:
    """What additive attention reads: exp(2 keys), the energies' weights, what each position adds to the scores."""

    keys: Float[Tensor, "B S A"]
    energies: Float[Tensor, "A"]
    values: Float[Tensor, "B S V"]
    mask: Bool[Tensor, "B S"]


@triton.jit
def inverse(x):
    """1 / x for x from 1 on, right to about two units in the last place: a division takes three times as long."""
    root = tl.rsqrt(x)
    return root * root


@triton.jit
def source_end(mask, example, sources, flat: tl.constexpr, places: tl.constexpr):
    """One past the last real source position of the examples of a block."""
    end = 0
    for low in range(0, sources, places):
        place = low + tl.arange(0, places)
        if flat:
            at = mask + (example[:, None] * sources + place[None, :])
            real = tl.max((tl.load(at, mask=(place < sources)[None, :], other=0) != 0).to(tl.int32), 0)
        else:
            real = (tl.load(mask + example * sources + place, mask=place < sources, other=0) != 0).to(tl.int32)
        end = tl.maximum(end, tl.max(real * (place + 1), 0))
    return end


@triton.jit
def attend(query, keys, energies, values, mask, example, end, sources, attention, vocabulary, flat: tl.constexpr,
           most: tl.constexpr, tokens: tl.constexpr):  # fmt: skip
    """What attention adds to the scores; the softmax over source positions is summed as they come.

    tanh(q + k) is 1 - 2 / (1 + exp(2 q) exp(2 k)), and what is the same at all positions leaves the softmax as it is:
    one division and no exponential for each unit of a query and key.
    """
    rows: tl.constexpr = query.shape[0]
    attended: tl.constexpr = query.shape[1]
    unit = tl.arange(0, attended)
    token = tl.arange(0, tokens)
    weight = -2.0 * tl.load(energies + unit, mask=unit < attention, other=0.0)[None, :]
    query = tl.exp(2.0 * tl.minimum(tl.maximum(query, -most), most))
    top = tl.full((rows,), -3.4028234663852886e38, tl.float32)  # the masked energy of the plain code
    total = tl.zeros((rows,), tl.float32)
    mixed = tl.zeros((rows, tokens), tl.float32)
    for source in range(end):
        at = example * sources + source
        real = tl.load(mask + at) != 0
        if flat:  # every row has its own example
            key = tl.load(keys + (at[:, None] * attention + unit[None, :]), mask=(unit < attention)[None, :], other=0.0)
            value = tl.load(values + (at[:, None] * vocabulary + token[None, :]), mask=(token < vocabulary)[None, :],
                            other=0.0)  # fmt: skip
        else:
            key = tl.load(keys + at * attention + unit, mask=unit < attention, other=0.0)[None, :]
            value = tl.load(values + at * vocabulary + token, mask=token < vocabulary, other=0.0)[None, :]
        energy = tl.where(real, tl.sum(weight * inverse(1.0 + query * key), 1), -3.4028234663852886e38)
        higher = tl.maximum(top, energy)
        fade = tl.exp(top - higher)
        share = tl.exp(energy - higher)
        total = total * fade + share
        mixed = mixed * fade[:, None] + share[:, None] * value
        top = higher
    return mixed / tl.maximum(total, 1.0)[:, None]  # the largest share is 1, but for a source without a position
