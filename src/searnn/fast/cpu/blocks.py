"""Greedy roll-ins and roll-outs of a GRU decoder on a CPU: a queue of rows through blocks that stay in the cache.

A block has a fixed number of seats. At each turn its rows take one token together; rows that have ended leave, and the
next of the queue sit down, so products stay large until the queue is empty. Products are the library's, what lies
between them are single passes over the block (`cpu_rows`). Each thread has a block and a share of the rows of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.fast.cpu import rows as cpu_rows
from searnn.fast.cpu.choice import Buffer, Chooser, Scorer, has_fast_integers, shorten
from searnn.types import Vocabulary

SEATS = 512
LEAST = 128  # rows that are worth a thread of their own
MANY_TOKENS, MANY_CHOICES = 4096, 512  # from which on the best token is looked for by 8-bit scores
Table = tuple[Float[np.ndarray, "V G"], Float[np.ndarray, "V D"]]


@dataclass(frozen=True)
class Decoder:
    """The weights as the blocks read them."""

    recur: Float[Tensor, "D G"]  # U, filled up to whole vectors
    bias: Float[np.ndarray, "D"]  # b in r ∘ (U h + b)
    table: Table | None  # W x + b of every token: of the gates r and z, and of n
    enter: Callable[[Int[Tensor, "N"] | None], tuple[Tensor, Tensor]]  # the same of some tokens, or of all
    seen: tuple[Float[np.ndarray, "B S G"], Float[np.ndarray, "B S D"]]  # what an aligned decoder reads; S may be 0
    scorer: Scorer
    vocab: Vocabulary


@dataclass(frozen=True)
class Work:
    """Rows to finish, `share` of each example, and their first states with U h, which rows may have in common."""

    outputs: Int[np.ndarray, "N T"]
    cells: Int[np.ndarray, "N"]
    limits: Int[np.ndarray, "N"]
    share: int
    span: int  # states of an example, one for each cell; 0: one for each row
    hidden: Float[np.ndarray, "M D"]
    product: Float[np.ndarray, "M G"]
    bias: Float[np.ndarray, "D"]  # b, zero where it is in the product


def whole(size: int) -> int:
    """Rounded up to whole vectors: products of other sizes take a third longer."""
    return (size + 15) // 16 * 16


def run(decoder: Decoder, work: Work) -> None:
    """Finish the rows in place, on as many threads as the library may use."""
    queue = np.empty(len(work.cells), np.int64)
    count, choices = cpu_rows.plan(work.outputs, work.cells, work.limits, end_of(decoder.vocab), queue)
    if count == 0:
        return
    decoder = prepare(decoder, choices)
    threads = torch.get_num_threads()
    shares = max(1, min(threads, count // LEAST))
    queues = [np.ascontiguousarray(queue[share:count:shares]) for share in range(shares)]
    if shares == 1:
        finish(decoder, work, queues[0])
        return
    torch.set_num_threads(1)  # the products of a share run on its own thread; the number must be set in each
    try:
        with ThreadPoolExecutor(shares - 1, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            others = [pool.submit(finish, decoder, work, own) for own in queues[1:]]
            finish(decoder, work, queues[0])
            for other in others:
                other.result()
    finally:
        torch.set_num_threads(threads)


def prepare(decoder: Decoder, choices: int) -> Decoder:
    """What pays where many tokens are chosen: a table of W x, and 8-bit weights of a large vocabulary."""
    if decoder.table is None and choices >= decoder.vocab.embeddings:
        both, new = decoder.enter(None)
        decoder = replace(decoder, table=(both.numpy(), new.numpy()))
    weight = decoder.scorer.weight
    if weight is not None and len(weight) >= MANY_TOKENS and choices >= MANY_CHOICES and has_fast_integers():
        decoder = replace(decoder, scorer=replace(decoder.scorer, short=shorten(weight, decoder.scorer.bias)))
    return decoder


def finish(decoder: Decoder, work: Work, queue: Int[np.ndarray, "N"]) -> None:
    """Finish the rows of a queue in one block."""
    seats, vocab, eos = min(SEATS, len(queue)), decoder.vocab, end_of(decoder.vocab)
    hidden, product = (Buffer(seats, width) for width in decoder.recur.shape)
    choose = Chooser(decoder.scorer, seats)
    slots = torch.empty(cpu_rows.FIELDS, seats, dtype=torch.long)
    seated, outputs = slots.numpy(), work.outputs.reshape(-1)
    rows = (work.outputs, work.cells, work.limits, work.share, work.span, vocab.bos, vocab.embeddings)
    which = seated[cpu_rows.TOKEN] if decoder.table is not None else np.arange(seats)
    aligned = (*decoder.seen, work.outputs.shape[1], seated)
    none = hidden.array[:0]
    kept = taken = 0
    while kept or taken < len(queue):
        count = min(seats, kept + len(queue) - taken)
        if count > kept:
            cpu_rows.seat_rows(queue[taken:], seated, kept, count, *rows)
            taken += count - kept
        table = decoder.table
        if table is None:
            both, new = decoder.enter(slots[cpu_rows.TOKEN, :count])
            table = both.numpy(), new.numpy()
        entering = (*table, which, *aligned)
        if kept:
            torch.mm(hidden.first(kept), decoder.recur, out=product.first(kept))
            cpu_rows.advance_rows(hidden.array, none, product.array, decoder.bias, *entering, 0, kept)
        if count > kept:
            cpu_rows.advance_rows(hidden.array, work.hidden, work.product, work.bias, *entering, kept, count)
        choose(hidden, count, seated)
        kept = cpu_rows.write_tokens(seated, outputs, hidden.array, eos, count)


def end_of(vocab: Vocabulary) -> int:
    """EOS, or what no token is."""
    return -1 if vocab.eos is None else vocab.eos
