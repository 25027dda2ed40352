"""What lies between the products of greedy roll-outs on a CPU: single passes over blocks of rows, compiled by Numba.

Rows stand in slots; `slots` holds for each of them what its five names below say. All of it is in one file: Numba's
cache of compiled code looks at the file of a function alone, not at those of the functions it calls.
"""

# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from numba import njit

TOKEN, LEFT, PLACE, EXAMPLE, SOURCE = range(5)
"""The token consumed next, how many may still be taken, where the next is written, whose row it is, its first state."""
FIELDS = 5
OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
ORDERED = {**OPTIONS, "fastmath": False}
MOST = np.float32(60)  # exponents of 2 are cut to ± this, so that the product of two powers is finite
FAR = np.float32(1e30)  # what no energy reaches
LOWEST = np.int32(-(2**31))
LOG2E = np.float32(1.4426950408889634)
ONE, TWO, HALF = np.float32(1), np.float32(2), np.float32(0.5)
# 2^x for x in ± 1/2 with a relative error of 1e-7: the polynomial of this degree whose largest error is least.
C0, C1, C2, C3, C4, C5 = (
    np.float32(c) for c in (1.00000007, 0.693146967, 0.240221198, 0.0555071331, 0.00967554172, 0.00132764713)
)


def compiled(signature, options=OPTIONS):
    """Compile for one signature when the module is imported, or take the code from the cache on disk."""

    def decorate(function):
        try:
            return njit(signature, cache=True, **options)(function)
        except (RuntimeError, OSError):  # no folder for the cache can be written to: compiled in each process
            return njit(signature, **options)(function)

    return decorate


@njit(inline="always", **OPTIONS)
def exp2(exponent):
    """2^x by mul, add and shift alone, so that LLVM makes vector instructions of it; a call it could not."""
    exponent = min(max(exponent, -MOST), MOST)
    whole = np.floor(exponent + HALF)
    part = exponent - whole
    power = np.float32(C0 + part * (C1 + part * (C2 + part * (C3 + part * (C4 + part * C5)))))
    return np.int32(power.view(np.int32) + (np.int32(whole) << np.int32(23))).view(np.float32)


@compiled(
    "void(int64[:, ::1], int64[:, ::1], int64[:, :, ::1], boolean[:, :, ::1], int64[::1], int64, int64,"
    "int64[:, ::1], int64[::1], int64[::1])", ORDERED
)  # fmt: skip
def open_branches(prefix, cells, tokens, wanted, lengths, steps, pad, outputs, row_cells, limits):
    """Every branch as far as it is given, `prefix[:cell]`, the token, then PAD; with its cell and how far it may go.

    A branch that is not wanted may go no further, the others at most `steps` tokens.
    """
    row = 0
    for example in range(len(cells)):
        for place in range(cells.shape[1]):
            cell = cells[example, place]
            for candidate in range(tokens.shape[2]):
                for position in range(outputs.shape[1]):
                    outputs[row, position] = prefix[example, position] if position < cell else pad
                if 0 <= cell < outputs.shape[1]:
                    outputs[row, cell] = tokens[example, place, candidate]
                ahead = min(steps, lengths[example] - cell - 1) if wanted[example, place, candidate] else 0
                row_cells[row] = cell
                limits[row] = cell + 1 + ahead
                row += 1


@njit(inline="always", **OPTIONS)
def room_of(row, outputs, cells, limits, eos):
    """How many tokens a row may still take: none after EOS. Cells and limits are trusted nowhere else."""
    cell = cells[row]
    room = min(limits[row], outputs.shape[1]) - cell - 1
    return 0 if cell < -1 or (room > 0 and cell >= 0 and outputs[row, cell] == eos) else room


@compiled("UniTuple(int64, 2)(int64[:, ::1], int64[::1], int64[::1], int64, int64[::1])", ORDERED)
def plan(outputs, cells, limits, eos, queue):
    """Queue the rows that may take a token, those that may take most first.

    Returns how many they are, and how many tokens they may take in all. A row whose last token is EOS takes no more.
    """
    longest = outputs.shape[1]
    starts = np.zeros(longest + 2, np.int64)  # by room, from the most on
    tokens = 0
    for row in range(len(cells)):
        room = room_of(row, outputs, cells, limits, eos)
        if room > 0:
            starts[longest - room + 1] += 1
            tokens += room
    for room in range(longest + 1):
        starts[room + 1] += starts[room]
    for row in range(len(cells)):
        room = room_of(row, outputs, cells, limits, eos)
        if room > 0:
            queue[starts[longest - room]] = row
            starts[longest - room] += 1
    return starts[longest], tokens


@compiled(
    "void(int64[::1], int64[:, ::1], int64, int64, int64[:, ::1], int64[::1], int64[::1], int64, int64, int64, int64)",
    ORDERED,
)
def seat_rows(queue, slots, low, high, outputs, cells, limits, share, span, bos, tokens):
    """Give slots `low` to `high` to the first rows of the queue; `tokens` is how many there are.

    `share` rows belong to each example. A row's first state is its own, or with `span` that of its cell among the
    `span` states of its example.
    """
    for slot in range(low, high):
        row = queue[slot - low]
        cell = cells[row]
        example = row // share
        token = outputs[row, cell] if cell >= 0 else bos
        slots[TOKEN, slot] = min(max(token, 0), tokens - 1)  # it is looked up without a check
        slots[LEFT, slot] = min(limits[row], outputs.shape[1]) - cell - 1
        slots[PLACE, slot] = row * outputs.shape[1] + cell + 1
        slots[EXAMPLE, slot] = example
        slots[SOURCE, slot] = example * span + max(cell, 0) if span > 0 else row


@njit(inline="always", **OPTIONS)
def order(score):
    """Integers in the order of the scores: their maximum is found by vector instructions, that of floats is not."""
    bits = np.float32(score).view(np.int32)
    return np.int32(bits ^ (np.int32(bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@njit(inline="always", **OPTIONS)
def add(left, right, total):
    """The sum of two vectors; NumPy's own would make a new one each time."""
    for unit in range(len(total)):
        total[unit] = left[unit] + right[unit]


@njit(inline="always", **OPTIONS)
def advance(hidden, own, both, new, bias):
    """One row's step: r, z = σ(·), n = tanh(W x + r ∘ (U h + b)), h' = (1 - z) ∘ n + z ∘ h, with two quotients a unit.

    With a = 1 / r, b = 1 / z and c = exp(2 ·) in n, h' is ((b - 1) (c - 1) + (c + 1) h) / (b (c + 1)).
    """
    width = len(hidden)
    for unit in range(width):
        reset = ONE + exp2(-LOG2E * (own[unit] + both[unit]))
        update = ONE + exp2(-LOG2E * (own[width + unit] + both[width + unit]))
        fresh = exp2(TWO * LOG2E * (new[unit] + (own[2 * width + unit] + bias[unit]) / reset))
        over = fresh + ONE
        hidden[unit] = ((update - ONE) * (fresh - ONE) + hidden[unit] * over) / (update * over)


@compiled(
    "void(float32[:, ::1], float32[:, ::1], float32[:, ::1], float32[::1], float32[:, ::1], float32[:, ::1],"
    "int64[::1], float32[:, :, ::1], float32[:, :, ::1], int64, int64[:, ::1], int64, int64)"
)
def advance_rows(
    hidden, first, product, bias, both_in, new_in, which, both_seen, new_seen, length, slots, low, high
):  # fmt: skip
    """Consume a token in slots `low` to `high`: from U h in `product`, and W x in `both_in` and `new_in`.

    Row `which[slot]` of W x belongs to a slot. With `first` states, those and their U h are found by the slots' source,
    else U h by the slot and the state in `hidden`. An aligned decoder also reads `both_seen` and `new_seen`.
    """
    width = hidden.shape[1]
    both_sum, new_sum = np.empty(2 * width, np.float32), np.empty(width, np.float32)
    for slot in range(low, high):
        source = slot
        if len(first):
            source = slots[SOURCE, slot]
            for unit in range(width):
                hidden[slot, unit] = first[source, unit]
        both, new = both_in[which[slot]], new_in[which[slot]]
        if both_seen.shape[1]:
            seat = slots[PLACE, slot] % length
            if seat < both_seen.shape[1]:
                example = slots[EXAMPLE, slot]
                for unit in range(2 * width):
                    both_sum[unit] = both[unit] + both_seen[example, seat, unit]
                for unit in range(width):
                    new_sum[unit] = new[unit] + new_seen[example, seat, unit]
                both, new = both_sum, new_sum
        advance(hidden[slot], product[source], both, new, bias)


@compiled(
    "void(float32[:, ::1], int64, float32[::1], float32[::1], float32[:, :, ::1], float32[:, :, ::1], boolean[:, ::1],"
    "int64[:, ::1], int64)"
)
def attend_rows(asked, padded, query_bias, energies, keys, values, mask, slots, count):
    """Add to each slot's `asked[padded:]` the values of its example, weighted by the softmax of v · tanh(q + k).

    The query is `asked[:padded]` without its bias; `keys` hold exp(2 k). tanh(x) is 1 - 2 / (1 + exp(2 x)), and what is
    the same at all positions leaves the softmax as it is, so a unit takes a sum and a quotient; two share a quotient
    (where its divisor is infinite, both terms are nothing).
    """
    half = padded // 2
    places = keys.shape[1]
    powers = np.empty(padded, np.float32)
    weights = np.full((places + 15) // 16 * 16, FAR)  # whole vectors
    heavy, heavy_too = energies[:half], energies[half:]
    power, power_too = powers[:half], powers[half:]
    for slot in range(count):
        example = slots[EXAMPLE, slot]
        query = asked[slot, :padded]
        for unit in range(padded):
            powers[unit] = exp2(TWO * LOG2E * (query[unit] + query_bias[unit]))
        least = FAR
        for place in range(places):
            weights[place] = FAR
            if mask[example, place]:
                key, key_too = keys[example, place, :half], keys[example, place, half:]
                total = np.float32(0)
                for unit in range(half):
                    one, other = ONE + power[unit] * key[unit], ONE + power_too[unit] * key_too[unit]
                    total += (heavy[unit] * other + heavy_too[unit] * one) / (one * other)
                weights[place] = total
                least = min(least, total)
        for place in range(len(weights)):
            weights[place] = exp2(TWO * LOG2E * (least - weights[place]))
        whole = np.float32(0)
        for place in range(places):
            whole += weights[place]
        mixed = asked[slot, padded:]
        for place in range(places):
            weight = weights[place] / whole
            value = values[example, place]
            for unit in range(len(value)):
                mixed[unit] += weight * value[unit]


@compiled("void(float32[:, ::1], int64, int64, float32[::1], int64, int32[::1], int64[:, ::1], int64)", ORDERED)
def choose_tokens(scores, offset, width, bias, base, best, slots, count):
    """The best-scored token of each slot, among `width` of them from number `base` on and those seen before.

    Among equal scores the first wins. `best` holds the highest score so far, as `order` gives it; the first call has
    base 0.
    """
    for slot in range(count):
        row = scores[slot, offset : offset + width]
        highest = LOWEST
        for token in range(width):
            highest = max(highest, order(row[token] + bias[token]))
        if base == 0 or highest > best[slot]:
            found = np.int32(width)
            for token in range(width):
                same = order(row[token] + bias[token]) == highest
                found = min(found, np.int32(token) if same else np.int32(width))
            best[slot] = highest
            slots[TOKEN, slot] = base + found


@compiled("int64(int64[:, ::1], int64[::1], float32[:, ::1], int64, int64)", ORDERED)
def write_tokens(slots, outputs, hidden, eos, count):
    """Write the chosen tokens; rows that may take more move to the first slots. Returns how many these are."""
    kept = 0
    for slot in range(count):
        token = slots[TOKEN, slot]
        outputs[slots[PLACE, slot]] = token
        left = slots[LEFT, slot] - 1
        if left > 0 and token != eos:
            slots[TOKEN, kept] = token
            slots[LEFT, kept] = left
            slots[PLACE, kept] = slots[PLACE, slot] + 1
            slots[EXAMPLE, kept] = slots[EXAMPLE, slot]
            if kept < slot:
                hidden[kept] = hidden[slot]
            kept += 1
    return kept
