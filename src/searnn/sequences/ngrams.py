"""N-grams that outputs share with the truth, counted by bit masks, and the scores made from these counts.

Bit j of a mask stands for position j of the truth. A mask is one int64 word for every `BITS` positions, words first.
An n-gram is known by the place of its last token, so a mask grows by a token as `(mask << 1) & places(token)`.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.engine import replaceable
from searnn.sequences.ends import before_end
from searnn.settings import Setting
from searnn.types import Vocabulary

BITS = 62  # of an int64, below its sign: one more is left for a shift
Order = Annotated[int, Setting("the longest n-grams", ge=1, public=False)]
Definition = Annotated[Literal["leblond", "bahdanau", "lin-och"], Setting("how BLEU is smoothed", name="bleu")]
DEFINITIONS = get_args(get_args(Definition)[0])
TABLE = 1 << 23  # words of a table over the vocabulary that are held at once: 64 MB
PAIRS = 1 << 14  # outputs compared at once on a processor: their masks stay near it


def never_matching(definition: str, unknown: int | None) -> int | None:
    """The token whose n-grams match nothing: Bahdanau et al. take two unknown words for two different ones."""
    return unknown if definition == "bahdanau" else None


@replaceable
def count_matches(
    outputs: Int[Tensor, "B N T"], targets: Int[Tensor, "B T"], vocab: Vocabulary, order: int, never: int | None = None
) -> Int[Tensor, "O B N"]:
    """How many n-grams of each order from 1 to O an output shares with its target, where each place serves once."""
    step = max(1, PAIRS // max(1, outputs.shape[1])) if outputs.device.type == "cpu" else len(outputs)
    blocks = [slice(first, first + step) for first in range(0, len(outputs), step)]
    return torch.cat([_count_block(outputs[some], targets[some], vocab, order, never) for some in blocks], 1)


def _count_block(outputs: Tensor, targets: Tensor, vocab: Vocabulary, order: int, never: int | None) -> Tensor:
    masks = places(outputs.flatten(1), targets, vocab, never)
    masks = torch.where(before_end(outputs, vocab), masks.view(len(masks), *outputs.shape), 0)  # [W, B, N, T]
    masks = masks.permute(3, 0, 1, 2).contiguous()
    runs = masks.new_zeros(masks.shape[1], order, *outputs.shape[:2])
    left = torch.full_like(runs, -1)
    for mask in masks:
        runs = grow(runs, mask)
        left ^= lowest(runs & left)
    return count_bits(~left).sum(0)


def places(
    tokens: Int[Tensor, "B N"], targets: Int[Tensor, "B T"], vocab: Vocabulary, never: int | None = None
) -> Int[Tensor, "W B N"]:
    """Where the truth has each token: nowhere if it is `never` or ends an output."""
    bits = position_bits(targets, vocab, never)
    if vocab.embeddings > max(tokens.shape[1] * targets.shape[1], 1 << 10):  # a table would not pay
        masks = tokens.new_zeros(bits.shape[0], *tokens.shape)
        for position in range(targets.shape[1]):
            word = position // BITS
            masks[word] |= torch.where(tokens == targets[:, position, None], bits[word, :, position, None], 0)
        return masks
    step = max(1, TABLE // (bits.shape[0] * vocab.embeddings))
    blocks = [slice(first, first + step) for first in range(0, len(tokens), step)]
    return torch.cat([_look_up(tokens[some], targets[some], bits[:, some], vocab) for some in blocks], 1)


def _look_up(tokens: Tensor, targets: Tensor, bits: Tensor, vocab: Vocabulary) -> Tensor:
    table = bits.new_zeros(*bits.shape[:2], vocab.embeddings)
    table.scatter_add_(2, targets.expand_as(bits), bits)  # positions differ, so adding is setting bits
    return table.gather(2, tokens.expand(len(bits), -1, -1))


def position_bits(targets: Int[Tensor, "B T"], vocab: Vocabulary, never: int | None = None) -> Int[Tensor, "W B T"]:
    """Each position's own bit, 0 past the truth's end and for the token `never`."""
    positions = torch.arange(targets.shape[1], device=targets.device)
    words = torch.arange(-(-targets.shape[1] // BITS), device=targets.device).view(-1, 1, 1)
    counted = before_end(targets, vocab)
    if never is not None:
        counted = counted & (targets != never)
    return torch.where(counted & (positions // BITS == words), 1 << positions % BITS, 0)


def grow(runs: Int[Tensor, "W O *N"], mask: Int[Tensor, "W *M"]) -> Int[Tensor, "W O *M"]:
    """Where the truth has the last 1 to O tokens, after one more token that it has at `mask`."""
    mask = mask.unsqueeze(1)
    return torch.cat([mask, shift(runs[:, :-1], 1) & mask], 1)


def shift(masks: Int[Tensor, "W *N"], by: int) -> Int[Tensor, "W *N"]:
    """All places moved up by less than `BITS`; what leaves a word stays in it too, above the bits of any mask."""
    moved = masks << by
    if len(masks) > 1:
        moved[1:] |= masks[:-1] >> (BITS - by)
    return moved


def lowest(masks: Int[Tensor, "W *N"]) -> Int[Tensor, "W *N"]:
    """The first place of each mask alone."""
    first = masks & -masks
    for word in range(1, len(masks)):
        first[word] *= (masks[:word] == 0).all(0)
    return first


def count_bits(masks: Int[Tensor, "*N"]) -> Int[Tensor, "*N"]:
    """How many bits are set, of non-negative words: sums of neighbouring 1, 2, 4 bits, then of all bytes at once."""
    pairs = masks - (masks >> 1 & 0x5555555555555555)
    fours = (pairs & 0x3333333333333333) + (pairs >> 2 & 0x3333333333333333)
    return (fours + (fours >> 4) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101 >> 56


def count_ngrams(lengths: Int[Tensor, "*N"], order: int) -> Int[Tensor, "O *N"]:
    """How many n-grams of each order from 1 to O a sequence of each length has."""
    shorter = torch.arange(order, device=lengths.device).view(-1, *[1] * lengths.ndim)
    return (lengths - shorter).clamp(min=0)


def bleu(
    matches: Int[Tensor, "O *N"],
    lengths: Int[Tensor, "..."],
    references: Int[Tensor, "..."],
    definition: str,
    dtype: torch.dtype,
) -> Float[Tensor, "*N"]:
    """The smoothed sentence BLEU of outputs with these matches and lengths; `SentenceBleu` has the definitions."""
    shared, counts = matches.to(dtype), count_ngrams(lengths, len(matches)).to(dtype)
    if definition == "lin-och":
        precisions = torch.cat([shared[:1] / counts[:1].clamp(min=1), (shared[1:] + 1) / (counts[1:] + 1)])
    else:
        precisions = (shared + 1) / (counts + 1)
    short = 1 - references.clamp(min=1).to(dtype) / lengths.clamp(min=1)
    scores = (precisions.log().mean(0) + short.clamp(max=0)).exp()
    worthless = lengths == 0
    if definition == "leblond":
        worthless = worthless | (matches[0] == 0)
    return scores.masked_fill(worthless, 0)


def gleu(
    matches: Int[Tensor, "O *N"], lengths: Int[Tensor, "..."], references: Int[Tensor, "..."], dtype: torch.dtype
) -> Float[Tensor, "*N"]:
    """GLEU of outputs with these matches and lengths: the smaller of precision and recall over all n-grams."""
    longer = lengths.maximum(references)
    total = count_ngrams(longer, len(matches)).sum(0)
    return torch.where(longer == 0, 1, matches.sum(0).to(dtype) / total.clamp(min=1))
