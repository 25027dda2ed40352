"""The records that pass between the parts: what each holds, and in which shape.

The letters are fixed for the whole project: B examples, R rows per example, T output positions (the paper's cells),
C costed cells, K candidate tokens per cell, V vocabulary, S source positions, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn import tree

LONGEST = 2000  # characters of a message


class SearnnError(Exception):
    """A mistake in what was given: the message says what was given, what was expected and what to do.

    What was given may be of any length: the middle of a very long message is left out.
    """

    def __init__(self, message: object = "") -> None:
        told = str(message)
        super().__init__(told if len(told) <= LONGEST else f"{told[: LONGEST // 2]} ... {told[-LONGEST // 2 :]}")


@dataclass(frozen=True)
class Vocabulary:
    """The output tokens: `size` of them are scored; PAD and BOS are never chosen and may lie beyond `size`.

    `eos=None` where outputs have a known length.
    """

    size: int
    pad: int
    bos: int
    eos: int | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise SearnnError(f"a vocabulary needs at least one token, size is {self.size}")
        if self.eos is not None and not 0 <= self.eos < self.size:
            raise SearnnError(f"eos is {self.eos}, it must be a scored token: 0 to {self.size - 1}, or None")
        if self.size - (self.pad < self.size) - (self.bos < self.size) < 1:
            raise SearnnError(f"a vocabulary of {self.size} has no token besides pad and bos: enlarge it")
        if min(self.pad, self.bos) < 0 or len({self.pad, self.bos, self.eos}) < 3:
            raise SearnnError(f"pad {self.pad}, bos {self.bos} and eos {self.eos} must be different and not negative")

    @property
    def embeddings(self) -> int:
        """How many token ids a model may be fed: an embedding table needs as many rows."""
        return max(self.size, self.pad + 1, self.bos + 1)

    @property
    def choosable(self) -> tuple[int, ...]:
        """The scored tokens that may stand in an output: all but PAD and BOS."""
        return _all_but(self.size, self.pad, self.bos)


@cache
def _all_but(size: int, pad: int, bos: int) -> tuple[int, ...]:
    return tuple(token for token in range(size) if token not in (pad, bos))  # milliseconds where there are many


class Inputs(NamedTuple):
    """The source side as the models here read it: tokens or feature vectors, and how many are real."""

    values: Tensor  # [B, S] tokens, [B, S, N] columns of tokens whose embeddings are summed, or [B, S, F] features
    lengths: Int[Tensor, "B"]


@dataclass(frozen=True)
class Batch:
    """Examples that are trained on together.

    Where the output length is free, `targets` end in EOS, then PAD, and `lengths` is the most cells an output may
    take. Where the task knows it (labelling), there is no EOS and `lengths` is the number of cells of each example.
    `host_lengths` is a copy of `lengths` in host memory, so that planning needs no device synchronisation. `vocab` is
    filled in by the search from the model where it is not given.
    """

    inputs: Any
    targets: Int[Tensor, "B T"]
    lengths: Int[Tensor, "B"]
    ids: tuple[int, ...] | None = None
    host_lengths: tuple[int, ...] | None = None
    vocab: Vocabulary | None = None

    def __post_init__(self) -> None:
        if self.targets.ndim != 2 or self.lengths.shape != self.targets.shape[:1]:
            shapes = f"targets {list(self.targets.shape)} and lengths {list(self.lengths.shape)}"
            raise SearnnError(f"a batch needs targets [B, T] and lengths [B], got {shapes}")
        if not self.targets.numel() or self.targets.dtype != torch.int64 or self.lengths.dtype != torch.int64:
            kinds = f"{list(self.targets.shape)} of {self.targets.dtype} and {self.lengths.dtype}"
            raise SearnnError(f"a batch needs at least one example and one cell, in int64; got {kinds}")
        cells, most = self.targets.shape[1], max(self.host_lengths or (0,))
        if self.lengths.device.type == "cpu":  # elsewhere a look would stop the device
            most = max(most, int(self.lengths.max()))
        if most > cells:
            raise SearnnError(f"lengths go up to {most}, but targets have {cells} cells: pad them")

    @property
    def vocabulary(self) -> Vocabulary:
        """The output vocabulary, where it is known."""
        if self.vocab is None:
            raise SearnnError("the batch has no vocabulary: make it with Batch(..., vocab=Vocabulary(...))")
        return self.vocab

    def with_vocab(self, vocab: Vocabulary) -> Batch:
        """The same batch, with the vocabulary where it had none."""
        if self.vocab is None:
            return replace(self, vocab=vocab)
        if self.vocab != vocab:
            raise SearnnError(f"the batch has {self.vocab}, the model {vocab}: they must be the same")
        return self

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on another device; the host's copy of the lengths is kept or made."""
        moved = tree.map_leaves(lambda leaf: leaf.to(device), (self.inputs, self.targets, self.lengths))
        inputs, targets, lengths = moved
        return replace(self, inputs=inputs, targets=targets, lengths=lengths, host_lengths=self.limits())

    def limits(self) -> tuple[int, ...]:
        """`lengths` as integers on the host."""
        if self.host_lengths is not None:
            return self.host_lengths
        return tuple(int(length) for length in self.lengths.tolist())


@dataclass(frozen=True)
class Branches:
    """Where the roll-in is left: at `cells` with `tokens`. Rectangular; what must not count is masked in `valid`."""

    prefix: Int[Tensor, "B T"]
    cells: Int[Tensor, "B C"]
    tokens: Int[Tensor, "B C K"]
    valid: Bool[Tensor, "B C K"]


@dataclass(frozen=True)
class SearchResult:
    """The paper's intermediate data set for one batch: prefixes, and the costed candidates of each chosen cell."""

    prefix: Int[Tensor, "B T"]
    cells: Int[Tensor, "B C"]
    tokens: Int[Tensor, "B C K"]
    outputs: Int[Tensor, "B C K T"]
    costs: Float[Tensor, "B C K"]
    valid: Bool[Tensor, "B C K"]


@dataclass(frozen=True)
class Update:
    """What an algorithm hands the trainer: the scalar to differentiate, and tensors to log.

    `cells` is the number of cells that the loss is made of. Who takes the mean over cells must give it, or a batch in
    parts (over processes, or to save memory) could not have the loss of the whole. What is logged is a mean over the
    batch's examples; where it is one over something else, such as cells, `counts` has their number under its name.
    """

    loss: Float[Tensor, ""]
    logs: Mapping[str, Tensor]
    cells: Int[Tensor, ""] | None = None
    counts: Mapping[str, Int[Tensor, ""]] = field(default_factory=dict)


class Rows(NamedTuple):
    """Partial outputs that advance together: what is written, the last cell written (-1: none), and their room."""

    outputs: Int[Tensor, "B R T"]
    cells: Int[Tensor, "B R"]
    limits: Int[Tensor, "B R"]
