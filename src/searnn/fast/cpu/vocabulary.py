"""The best of many tokens on a CPU: scores in 8-bit integers rule out all but a few tokens, which are scored in full.

A vector x is kept as whole numbers q and a scale s, and what is lost is known: with x' = s q,
|w · h - w' · h'| <= |w - w'| |h| + |w'| |h - h'|. A token whose score plus this bound is below another's score minus
its bound cannot be the best. So the choice is that of 32-bit scores; products of integers are several times faster.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

from searnn.fast.cpu.rows import LOWEST, OPTIONS, TOKEN, compiled

CHUNK = 128  # tokens that share a bound
MOST_FOUND = 128  # tokens that are scored in full; where more may be the best, all are
EXACT = {**OPTIONS, "fastmath": {"contract"}}
OF_WEIGHTS, OF_ROWS = 63, 127  # the largest whole numbers: sums of larger ones overflow on processors without VNNI
ROUNDING = np.float32(1e-6)  # the scores in full are themselves not exact
SCALE, NORM, LOST = range(3)
"""Of a vector x: s, |x| and |x - s q|."""


@njit(inline="always", **OPTIONS)
def order(score):
    """As in `cpu_rows`; Numba's cache does not see changes of functions in other files."""
    bits = np.float32(score).view(np.int32)
    return np.int32(bits ^ (np.int32(bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@compiled("void(float32[:, ::1], int64, int64, int64, int8[:, ::1], float32[:, ::1])")
def shorten(vectors, count, offset, largest, wholes, sizes):
    """Write the whole numbers of the first `count` vectors, which begin at `offset`, and their `sizes`."""
    width = wholes.shape[1]
    for row in range(count):
        vector = vectors[row, offset : offset + width]
        square = np.float32(0)
        most = np.int32(0)
        for unit in range(width):
            square += vector[unit] * vector[unit]
            most = max(most, np.int32(np.float32(abs(vector[unit])).view(np.int32)))
        scale = np.int32(most).view(np.float32) / np.float32(largest)
        inverse = np.float32(1) / scale if scale > 0 else np.float32(0)
        lost = np.float32(0)
        for unit in range(width):
            whole = np.floor(vector[unit] * inverse + np.float32(0.5))
            wholes[row, unit] = np.int8(np.int32(whole))
            rest = vector[unit] - whole * scale
            lost += rest * rest
        sizes[row, SCALE] = scale
        sizes[row, NORM] = np.sqrt(square)
        sizes[row, LOST] = np.sqrt(lost)


@njit(**EXACT)
def note(product, scales, bias, scale, bound, floor, base, tokens, tops, found):
    """Add the tokens of a chunk that may be the best to those found; returns how many there are, see `screen`."""
    for token in range(CHUNK):
        most = scale * (scales[token] * np.float32(product[token])) + bias[token] + bound
        if most >= floor:
            if found == MOST_FOUND:  # forget those that have been ruled out since
                kept = 0
                for old in range(MOST_FOUND):
                    if tops[old] >= floor:
                        tokens[kept], tops[kept] = tokens[old], tops[old]
                        kept += 1
                found = kept
            if found < MOST_FOUND:
                tokens[found], tops[found] = base + token, most
            found += 1
            if found > MOST_FOUND:
                break
    return found


@compiled(
    "void(int32[:, ::1], int64, float32[::1], float32[::1], float32[:, ::1], float32[:, ::1], float32[::1],"
    "int32[:, ::1], float32[:, ::1], int64[::1], int64)", EXACT
)  # fmt: skip
def screen(products, low, scales, bias, bounds, sizes, floors, tokens, tops, found, count):
    """Look at the integer products of each row with the tokens from `low` on, a multiple of the chunk.

    `bounds` hold for each chunk the largest |w - w'| and |w'|. `floors` is what the best token scores at least. Tokens
    that may be the best are noted in `tokens` with the most they may score in `tops`; `found` is their number, one more
    than there is place for where there are too many.
    """
    for row in range(count):
        scale, norm, lost = sizes[row, SCALE], sizes[row, NORM], sizes[row, LOST]
        floor, number = floors[row], found[row]
        for start in range(0, products.shape[1], CHUNK):
            base = low + start
            product = products[row, start : start + CHUNK]
            scaled, added = scales[base : base + CHUNK], bias[base : base + CHUNK]
            highest = LOWEST
            for token in range(CHUNK):
                highest = max(highest, order(scale * (scaled[token] * np.float32(product[token])) + added[token]))
            top = np.int32(highest ^ (np.int32(highest >> np.int32(31)) & np.int32(0x7FFFFFFF))).view(np.float32)
            bound = bounds[base // CHUNK, 0] * norm + bounds[base // CHUNK, 1] * (lost + ROUNDING * norm)
            bound += ROUNDING * abs(top)
            floor = max(floor, top - bound)
            if top + bound >= floor and number <= MOST_FOUND:
                number = note(product, scaled, added, scale, bound, floor, base, tokens[row], tops[row], number)
        floors[row], found[row] = floor, number


@njit(inline="always", **OPTIONS)
def score(weight, vector, bias):
    """The score of one token."""
    total = np.float32(0)
    for unit in range(len(weight)):
        total += weight[unit] * vector[unit]
    return total + bias


@compiled(
    "void(float32[:, ::1], int64, float32[:, ::1], float32[::1], float32[::1], int32[:, ::1], float32[:, ::1],"
    "int64[::1], int64[:, ::1], int64)"
)
def settle(vectors, offset, weights, bias, floors, tokens, tops, found, slots, count):
    """Score in full what may be the best token of each row; the first of equal scores is chosen."""
    width = weights.shape[1]
    for row in range(count):
        vector = vectors[row, offset : offset + width]
        every = found[row] == 0 or found[row] > MOST_FOUND
        highest, best = LOWEST, np.int64(0)
        for place in range(len(weights) if every else found[row]):
            token = place if every else np.int64(tokens[row, place])
            if every or tops[row, place] >= floors[row]:
                rank = order(score(weights[token], vector, bias[token]))
                if rank > highest:
                    highest, best = rank, token
        slots[TOKEN, row] = best
