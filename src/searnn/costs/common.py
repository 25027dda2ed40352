"""What the costs share: their checks, their normalisation, and the shape of a branch for the closed forms."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.sequences.ends import output_lengths, seal
from searnn.types import Batch, Branches, SearnnError, Vocabulary


class Leaving(NamedTuple):
    """Branches as the closed forms read them."""

    prefix: Int[Tensor, "B T"]  # PAD after its end
    cells: Int[Tensor, "B C"]  # how many cells of the prefix are kept, at most all
    limits: Int[Tensor, "B"]  # the most cells an output takes
    over: Bool[Tensor, "B C K"]  # nothing follows the prefix: the token ends the output, or the prefix ended before


def leave(branches: Branches, batch: Batch) -> Leaving:
    """Where each branch leaves the prefix, and whether it is over then."""
    vocab, width = batch.vocabulary, batch.targets.shape[1]
    prefix = seal(branches.prefix, batch.lengths, vocab)
    cells = branches.cells.clamp(0, width)
    limits = batch.lengths.clamp(max=width)
    ended = (cells >= limits.unsqueeze(1)) | (cells > output_lengths(prefix, vocab).unsqueeze(1))
    over = ended.unsqueeze(-1) | (branches.tokens == vocab.pad)
    if vocab.eos is not None:
        over = over | (branches.tokens == vocab.eos)
    return Leaving(prefix, cells, limits, over)


def as_costs(
    counts: Int[Tensor, "B *N"], targets: Int[Tensor, "B T"], vocab: Vocabulary, normalised: bool
) -> Float[Tensor, "B *N"]:
    """Counts of errors as costs: divided by the true length if `normalised`, where an empty target counts as one."""
    costs = counts.to(torch.get_default_dtype())
    if not normalised:
        return costs
    lengths = output_lengths(targets, vocab).clamp(min=1)
    return costs / lengths.view(-1, *[1] * (counts.ndim - 1))


def check_settings(name: str, vocab: object, normalised: object = False) -> None:
    """Refuse a setting of another type: `Hamming(True)` would otherwise be a cost without a vocabulary."""
    if vocab is not None and not isinstance(vocab, Vocabulary):
        raise SearnnError(f"{name} got vocab={vocab!r}, expected a Vocabulary or None: give other settings by name")
    if not isinstance(normalised, bool):
        raise SearnnError(f"{name} got normalised={normalised!r}, expected True or False")


def bound(name: str, vocab: Vocabulary | None) -> Vocabulary:
    """The vocabulary of a cost that is being called."""
    if vocab is None:
        raise SearnnError(f"{name} has no vocabulary to find the end of outputs by: make it as {name}(vocab=...)")
    return vocab
