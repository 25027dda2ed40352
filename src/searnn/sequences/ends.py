"""Where sequences end: EOS, PAD and the most cells an output may take."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from searnn.types import Batch, Vocabulary


def before_end(tokens: Int[Tensor, "*N T"], vocab: Vocabulary) -> Bool[Tensor, "*N T"]:
    """True at what is compared and counted: everything before the first EOS or PAD."""
    ended = tokens == vocab.pad
    if vocab.eos is not None:
        ended = ended | (tokens == vocab.eos)
    return ended.cumsum(-1, dtype=torch.int32) == 0


def output_lengths(tokens: Int[Tensor, "*N T"], vocab: Vocabulary) -> Int[Tensor, "*N"]:
    """How many tokens stand before the end."""
    return before_end(tokens, vocab).sum(-1)


def strip(tokens: Int[Tensor, "N T"], vocab: Vocabulary) -> list[list[int]]:
    """Each sequence as a list of what stands before its end."""
    lengths = output_lengths(tokens, vocab).tolist()
    return [row[:length] for row, length in zip(tokens.tolist(), lengths, strict=True)]


def seal(tokens: Int[Tensor, "B *N T"], limits: Int[Tensor, "B"], vocab: Vocabulary) -> Int[Tensor, "B *N T"]:
    """PAD after the first EOS and from the last allowed cell on."""
    positions = torch.arange(tokens.shape[-1], device=tokens.device)
    room = limits.view(-1, *[1] * (tokens.ndim - 1))
    kept = positions < room
    if vocab.eos is not None:
        is_eos = tokens == vocab.eos
        kept = kept & (is_eos.cumsum(-1) - is_eos.long() == 0)
    return torch.where(kept, tokens, vocab.pad)


def valid_cells(prefix: Int[Tensor, "B T"], batch: Batch) -> Bool[Tensor, "B T"]:
    """The cells that exist: up to and with the prefix's EOS, and within the example's room."""
    vocab = batch.vocabulary
    valid = torch.arange(prefix.shape[1], device=prefix.device) < batch.lengths.unsqueeze(1)
    if vocab.eos is not None:
        is_eos = prefix == vocab.eos
        valid = valid & (is_eos.cumsum(1) - is_eos.long() == 0)
    return valid


def reference_tokens(batch: Batch) -> Int[Tensor, "B T"]:
    """The token the truth has at each cell: the targets, and EOS at every cell past their end."""
    vocab = batch.vocabulary
    if vocab.eos is None:
        return batch.targets
    return torch.where(batch.targets == vocab.pad, vocab.eos, batch.targets)


def at_cells(values: Shaped[Tensor, "B T N"], cells: Int[Tensor, "B C"]) -> Shaped[Tensor, "B C N"]:
    """What `values` holds at each of `cells`."""
    return values.gather(1, cells.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def true_tokens(batch: Batch, cells: Int[Tensor, "B C"]) -> Int[Tensor, "B C"]:
    """The true token at each of `cells`."""
    return reference_tokens(batch).gather(1, cells.clamp(0, batch.targets.shape[1] - 1))


def join_suffix(
    prefix: Int[Tensor, "B T"],
    cells: Int[Tensor, "B C"],
    tokens: Int[Tensor, "B C K"],
    starts: Int[Tensor, "B C K"],
    batch: Batch,
) -> Int[Tensor, "B C K T"]:
    """`prefix[:cell]`, the token, then the truth from position `start` on, ended as every output is."""
    width = prefix.shape[1]
    positions = torch.arange(width, device=prefix.device)
    truth = reference_tokens(batch)
    source = starts.unsqueeze(-1) + positions - cells[:, :, None, None] - 1  # [B, C, K, T]
    examples = torch.arange(len(prefix), device=prefix.device).view(-1, 1, 1, 1)
    suffix = truth[examples, source.clamp(0, width - 1)]
    past = batch.vocabulary.pad if batch.vocabulary.eos is None else batch.vocabulary.eos
    suffix = torch.where(source >= width, past, suffix)
    here = positions - cells[:, :, None, None]
    joined = torch.where(here == 0, tokens.unsqueeze(-1), suffix)
    joined = torch.where(here < 0, prefix[:, None, None, :], joined)
    return seal(joined, batch.lengths, batch.vocabulary)


def forbid(scores: Float[Tensor, "*N V"], vocab: Vocabulary) -> Float[Tensor, "*N V"]:
    """The scores with those of PAD and BOS, where they are scored at all, set to minus infinity."""
    never = [token for token in (vocab.pad, vocab.bos) if token < vocab.size]
    if not never:
        return scores
    scores = scores.clone()
    for token in never:
        scores[..., token] = -torch.inf
    return scores
