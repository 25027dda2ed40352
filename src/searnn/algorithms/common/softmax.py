"""What becomes of the tokens that are no candidates: what the softmax of a loss is over."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from searnn.algorithms.common.losses import cell_losses
from searnn.algorithms.common.settings import DefaultCost, Softmax
from searnn.interfaces import Loss
from searnn.losses.temperature import TargetLoss
from searnn.sequences import forbid
from searnn.types import SearchResult, Vocabulary


def losses_of(
    loss: Loss,
    scores: Float[Tensor, "B C V"],
    found: SearchResult,
    vocab: Vocabulary,
    rng: torch.Generator,
    *,
    softmax: Softmax,
    default_cost: DefaultCost,
) -> Float[Tensor, "B C"]:
    """The loss of each costed cell, given its scores for all tokens.

    - "candidates": of the candidates alone; the paper's sLL and sKL, which leave the others alone.
    - "vocabulary": with that, -log of the probability that the softmax over the vocabulary gives the candidates
      together. Of LL and KL this is the loss with the whole softmax as its denominator and the target on the
      candidates, which pushes the others down; of LL the paper's "simply making the assumption that the token with
      minimum cost is always sampled".
    - "default-cost": of all tokens; one that is no candidate costs `default_cost`, or as much as the cell's dearest.
    """
    tokens = found.tokens.clamp(0, scores.shape[-1] - 1)
    if softmax == "default-cost":
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        costs, valid = filled(found, vocab, default_cost)
        return cell_losses(loss, scores, costs, valid, rng)
    candidates = scores.gather(2, tokens)  # [B, C, K]
    losses = cell_losses(loss, candidates, found.costs, found.valid, rng)
    if softmax == "candidates":
        return losses
    candidates, scores = (each.to(losses.dtype) for each in (candidates, scores))
    lowest = torch.finfo(losses.dtype).min  # not minus infinity, whose gradient is undefined where nothing is valid
    share = candidates.masked_fill(~found.valid, lowest).logsumexp(-1) - forbid(scores, vocab).logsumexp(-1)
    return losses - torch.where(found.valid.any(-1), share, 0.0)


def watched(
    loss: Loss, found: SearchResult, vocab: Vocabulary, *, softmax: Softmax, default_cost: DefaultCost
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What a loss tells of the targets that it makes of the costs, for the logs, and how many cells are counted."""
    if not isinstance(loss, TargetLoss):
        return {}, {}
    return loss.seen(*(filled(found, vocab, default_cost) if softmax == "default-cost" else (found.costs, found.valid)))


def filled(
    found: SearchResult, vocab: Vocabulary, default: DefaultCost
) -> tuple[Float[Tensor, "B C V"], Bool[Tensor, "B C V"]]:
    """The costs of all tokens, those that are no candidates with the default, and which of the tokens count."""
    exists = found.valid.any(-1, keepdim=True)
    if default is None:
        rest = found.costs.masked_fill(~found.valid, -torch.inf).amax(-1, keepdim=True)
        rest = torch.where(exists, rest, 0.0)
    else:
        rest = torch.full_like(found.costs[..., :1], default)
    costs = rest.repeat(1, 1, vocab.size + 1)  # one more, for what is masked: a repeated candidate costs nothing
    costs = costs.scatter(2, torch.where(found.valid, found.tokens, vocab.size), found.costs)[..., :-1]
    return costs, exists & (forbid(costs.new_zeros(vocab.size), vocab) == 0)
