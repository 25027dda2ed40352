"""What the costs share: their checks, their normalisation, and which branches are over at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.sequences.ends import output_lengths
from searnn.settings import Setting
from searnn.types import Batch, Branches, SearnnError, Vocabulary

Normalised = Annotated[bool, Setting("divide the cost by the true length", name="normalised_cost")]


@dataclass(frozen=True)
class TokenCost:
    """A cost that must know where outputs end; made without a `vocab` it gets the model's in the search."""

    vocab: Vocabulary | None = None

    def __post_init__(self) -> None:
        check_vocab(type(self).__name__, self.vocab)

    @property
    def bound(self) -> Vocabulary:
        """The vocabulary, once the cost is called."""
        return bound(type(self).__name__, self.vocab)


def ends_here(branches: Branches, batch: Batch) -> Bool[Tensor, "B C K"]:
    """Whether nothing is completed after a branch: its token ends the output, or the prefix has ended before."""
    vocab = batch.vocabulary
    kept = output_lengths(branches.prefix, vocab).minimum(batch.lengths - 1).unsqueeze(1)
    over = (branches.cells > kept).unsqueeze(-1) | (branches.tokens == vocab.pad)
    return over if vocab.eos is None else over | (branches.tokens == vocab.eos)


def as_costs(
    counts: Int[Tensor, "B *N"], targets: Int[Tensor, "B T"], vocab: Vocabulary, normalised: bool
) -> Float[Tensor, "B *N"]:
    """Counts of errors as costs: divided by the true length if `normalised`, where an empty target counts as one."""
    costs = counts.to(torch.get_default_dtype())
    if not normalised:
        return costs
    lengths = output_lengths(targets, vocab).clamp(min=1)
    return costs / lengths.view(-1, *[1] * (counts.ndim - 1))


def check_vocab(name: str, vocab: object) -> None:
    """Refuse a setting of another type: `Hamming(True)` would otherwise be a cost without a vocabulary."""
    if vocab is not None and not isinstance(vocab, Vocabulary):
        raise SearnnError(f"{name} got vocab={vocab!r}, expected a Vocabulary or None: give other settings by name")


def bound(name: str, vocab: Vocabulary | None) -> Vocabulary:
    """The vocabulary of a cost that is being called."""
    if vocab is None:
        raise SearnnError(f"{name} has no vocabulary to find the end of outputs by: make it as {name}(vocab=...)")
    return vocab
