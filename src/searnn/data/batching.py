"""Examples in memory and batches of them: packed end to end, gathered and padded without a loop over examples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from searnn import rng
from searnn.data import sharding
from searnn.rng import Shard
from searnn.types import Batch, Inputs, SearnnError, Vocabulary


@dataclass(frozen=True)
class Packed:
    """Sequences of many lengths end to end: sequence n is `values[starts[n] : starts[n] + lengths[n]]`."""

    values: Tensor  # [total] tokens of any integer type, [total, N] columns of them, or [total, F] features
    starts: Int[Tensor, "N"]
    lengths: Int[Tensor, "N"]

    def take(self, rows: Int[Tensor, "M"]) -> Packed:
        """Some of the sequences, without a copy of what they hold."""
        return Packed(self.values, self.starts[rows], self.lengths[rows])

    def padded(self, rows: Int[Tensor, "B"], width: int, fill: int) -> Tensor:
        """Some of the sequences as one block `[B, width]` or `[B, width, F]`, filled up with `fill`."""
        positions = torch.arange(width)
        past = positions >= self.lengths[rows].unsqueeze(1)
        index = (self.starts[rows].unsqueeze(1) + positions).masked_fill_(past, 0)
        # By numpy, on one thread: torch would wake its threads for this little, which on a busy machine takes longer
        # than the whole step.
        block = self.values.numpy()[index.numpy()]
        if block.dtype.kind in "iu":
            block = block.astype(np.int64, copy=False)
        block[past.numpy()] = fill
        return torch.from_numpy(block)


def pack(sequences: Sequence[Any]) -> Packed:
    """Pack lists of tokens, or arrays or tensors of features `[length, F]`."""
    if not len(sequences):
        raise SearnnError("there are no sequences to pack: expected at least one example")
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    if isinstance(sequences[0], (Tensor, np.ndarray)):
        values = torch.cat([torch.as_tensor(sequence) for sequence in sequences])
    else:
        values = torch.from_numpy(np.fromiter(chain.from_iterable(sequences), dtype=np.int64))
    return Packed(values, lengths.cumsum(0) - lengths, lengths)


@dataclass(frozen=True)
class Examples:
    """Examples in memory: sources, targets (with EOS where the length is free), room for outputs, and stable ids."""

    sources: Packed
    targets: Packed
    limits: Int[Tensor, "N"]  # the cells of each example, or the most an output may take
    ids: Int[Tensor, "N"]
    vocab: Vocabulary

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Int[Tensor, "M"]) -> Examples:
        """Some of the examples; they keep their ids."""
        return Examples(self.sources.take(rows), self.targets.take(rows), self.limits[rows], self.ids[rows], self.vocab)


def make_examples(
    sources: Packed | Sequence[Any],
    targets: Packed | Sequence[Sequence[int]],
    vocab: Vocabulary,
    cap: int | Sequence[int] | None = None,
) -> Examples:
    """Pair sources with targets.

    Targets are given without EOS; it is added where the vocabulary has one, and then `cap` says how many cells an
    output may take, EOS among them: one number, or one for each example.
    """
    sources = sources if isinstance(sources, Packed) else pack(sources)
    if vocab.eos is not None and not isinstance(targets, Packed):
        targets = [[*target, vocab.eos] for target in targets]
    elif vocab.eos is not None:
        raise SearnnError("packed targets have no room for EOS: give lists of tokens where the length is free")
    targets = targets if isinstance(targets, Packed) else pack(targets)
    _check_tokens(targets, vocab)
    examples = join(sources, targets, vocab, cap)
    limits = examples.limits
    if (limits < targets.lengths).any():
        worst = int((limits - targets.lengths).argmin())
        needs, room = int(targets.lengths[worst]), int(limits[worst])
        raise SearnnError(f"example {worst} needs {needs} cells with EOS, cap is {room}: raise cap or leave it out")
    return examples


def join(
    sources: Packed,
    targets: Packed,
    vocab: Vocabulary,
    cap: int | Sequence[int] | Tensor | None = None,
    ids: Int[Tensor, "N"] | None = None,
) -> Examples:
    """Pair packed sources with packed targets that have their EOS; a target longer than its cap is judged, not fed."""
    count = len(targets.lengths)
    if len(sources.lengths) != count:
        raise SearnnError(f"{len(sources.lengths)} sources for {count} targets: each example needs both")
    for side, lengths in (("source", sources.lengths), ("target", targets.lengths)):
        if (lengths < 1).any():
            raise SearnnError(f"the {side} of example {int(lengths.argmin())} is empty: leave such examples out")
    limits = _limits(targets.lengths, vocab, cap)
    return Examples(sources, targets, limits, torch.arange(count) if ids is None else ids, vocab)


def collate(examples: Examples, rows: Int[Tensor, "B"], pad_to: tuple[int, int] | None = None) -> Batch:
    """The examples at `rows` as one batch; `pad_to` fixes the widths of source and target, else the longest does."""
    limits = examples.limits[rows]
    widths = _widths(examples, rows)
    if pad_to is not None:
        if pad_to[0] < widths[0] or pad_to[1] < widths[1]:
            raise SearnnError(f"pad_to is {pad_to}, a batch needs (source, target) widths of at least {widths}")
        widths = pad_to
    return Batch(
        inputs=Inputs(examples.sources.padded(rows, widths[0], 0), examples.sources.lengths[rows]),
        targets=examples.targets.padded(rows, widths[1], examples.vocab.pad),
        lengths=limits,
        ids=tuple(examples.ids[rows].tolist()),
        host_lengths=tuple(limits.tolist()),
        vocab=examples.vocab,
    )


def unlabelled(sources: Sequence[Any], vocab: Vocabulary, cap: int | Sequence[int] | None = None) -> Batch:
    """A batch to predict on: the targets are PAD. Where the length is known a source has a cell at each position."""
    packed = pack(sources)
    if (packed.lengths < 1).any():
        raise SearnnError(f"source {int(packed.lengths.argmin())} is empty: leave it out")
    rows = torch.arange(len(packed.lengths))
    nothing = Packed(torch.tensor([vocab.pad]), torch.zeros_like(rows), torch.zeros_like(rows))
    return collate(Examples(packed, nothing, _limits(packed.lengths, vocab, cap), rows, vocab), rows)


Change = Callable[[Batch, torch.Generator], Batch]  # what is done to a batch each time it is drawn


class ShuffledBatches:
    """Training batches as a pure function of the step: every epoch has its own order, drawn from the seed by name.

    An incomplete last batch of an epoch is dropped, so that all batches are of one size. With a `pool` the examples of
    that many batches are sorted by length before they are cut into batches, which then come in random order: batches of
    about equal lengths, with little padding. `change` is applied to every batch with randomness of its own step.
    """

    def __init__(
        self,
        examples: Examples,
        batch_size: int,
        seed: int,
        pad_to: tuple[int, int] | None = None,
        *,
        pool: int = 1,
        change: Change | None = None,
    ) -> None:
        if not 1 <= batch_size <= len(examples):
            told = f"the batch size is {batch_size}, expected 1 to {len(examples)}, the number of examples"
            raise SearnnError(f"{told}: lower --batch-size, or give more data")
        if pool < 1:
            raise SearnnError(f"the pool is {pool} batches, expected at least 1")
        self.examples, self.batch_size, self.seed, self.pad_to = examples, batch_size, seed, pad_to
        self.pool, self.change = pool, change
        self.steps_per_epoch = len(examples) // batch_size
        self._order: tuple[int, Tensor] = (-1, torch.empty(0))  # an epoch and its order: only to not draw it again

    def batch(self, step: int) -> Batch:
        """The batch of this step, counted from 0."""
        batch = collate(self.examples, self._rows(step), self.pad_to)
        return batch if self.change is None else self.change(batch, rng.generator(self.seed, "change", step))

    def shard(self, step: int, index: int, count: int) -> tuple[Batch, Shard]:
        """Shard `index` of `count` of the batch, padded as in it.

        Only its examples are gathered, unless there is a `change`, whose randomness is that of the whole batch.
        """
        rows = self._rows(step)
        shard = sharding.deal(self.examples.targets.lengths[rows], index, count)
        if self.change is not None:
            return sharding.take(self.batch(step), shard.rows), shard
        widths = self.pad_to or _widths(self.examples, rows)
        return collate(self.examples, rows[shard.rows], widths), shard

    def _rows(self, step: int) -> Int[Tensor, "B"]:
        """The examples of the batch of this step."""
        if step < 0:
            raise SearnnError(f"the step is {step}, steps are counted from 0")
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._order[0] != epoch:
            self._order = (epoch, self._shuffle(rng.generator(self.seed, "data", epoch)))
        return self._order[1][place]

    def _shuffle(self, draw: torch.Generator) -> Int[Tensor, "N B"]:
        """The rows of every batch of an epoch."""
        shape = (self.steps_per_epoch, self.batch_size)
        order = torch.randperm(len(self.examples), generator=draw)[: shape[0] * shape[1]]
        if self.pool == 1:
            return order.view(shape)
        limits, lengths = self.examples.limits, self.examples.sources.lengths
        for rows in torch.split(order, self.pool * self.batch_size):  # views, sorted in place
            keys = limits[rows] * (lengths.max() + 1) + lengths[rows]
            rows.copy_(rows[keys.argsort(stable=True)])
        return order.view(shape)[torch.randperm(shape[0], generator=draw)]

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all examples: a run that is resumed must see the same ones."""
        digest = hashlib.blake2b(digest_size=16)
        for side in (self.examples.sources, self.examples.targets):
            for tensor in (side.values, side.starts, side.lengths):
                digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()


def ordered_batches(examples: Examples, batch_size: int, pad_to: tuple[int, int] | None = None) -> Iterator[Batch]:
    """Every example once, by length to save padding: for evaluation. `Batch.ids` says which is which."""
    if batch_size < 1:
        raise SearnnError(f"the batch size is {batch_size}, expected at least 1")
    order = torch.argsort(examples.sources.lengths, stable=True)
    return (collate(examples, rows, pad_to) for rows in torch.split(order, batch_size))


def _widths(examples: Examples, rows: Int[Tensor, "B"]) -> tuple[int, int]:
    """How many source and target cells the examples at `rows` need together."""
    needed = torch.maximum(examples.limits[rows], examples.targets.lengths[rows])
    return int(examples.sources.lengths[rows].max()), int(needed.max())


def _limits(known: Int[Tensor, "N"], vocab: Vocabulary, cap: int | Sequence[int] | Tensor | None) -> Int[Tensor, "N"]:
    """The room of each output: the known lengths, or the cap where outputs end by EOS."""
    if vocab.eos is None and cap is not None:
        raise SearnnError(f"cap is {cap}: expected no cap where outputs have a known length")
    if vocab.eos is None:
        return known
    if cap is None:
        raise SearnnError("cap is None: expected a cap where EOS ends the outputs")
    caps = torch.as_tensor(cap)
    if caps.shape not in ((), known.shape) or (caps < 1).any():
        raise SearnnError(f"cap is {cap}: expected a positive number, or one for each of the {len(known)} examples")
    return caps.expand(len(known)).clone()


def _check_tokens(targets: Packed, vocab: Vocabulary) -> None:
    """Refuse targets with tokens that no output can have."""
    tokens = targets.values
    wrong = (tokens < 0) | (tokens >= vocab.size) | (tokens == vocab.pad) | (tokens == vocab.bos)
    if vocab.eos is not None:
        wrong |= tokens == vocab.eos
        wrong[targets.starts + targets.lengths - 1] = False
    if wrong.any():
        place = int(wrong.int().argmax())
        example = int(((targets.starts <= place) & (place < targets.starts + targets.lengths)).int().argmax())
        found = f"the target of example {example} holds token {int(tokens[place])}"
        raise SearnnError(f"{found}, expected 0 to {vocab.size - 1} without PAD, BOS and EOS")
