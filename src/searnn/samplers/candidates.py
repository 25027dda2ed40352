"""What the samplers share: which tokens may be candidates, the truth first, and the model's own probabilities."""

from __future__ import annotations

import math
from typing import Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.sequences import forbid
from searnn.settings import Setting
from searnn.types import Vocabulary

Candidates = Annotated[int, Setting("number of candidate tokens, the true one among them", ge=1)]


def finite(scores: Float[Tensor, "B C V"]) -> Float[Tensor, "B C V"]:
    """The scores with NaN as the lowest number, so that they can be ordered and an excluded token is below them all."""
    return scores.nan_to_num(nan=torch.finfo(scores.dtype).min)


def choosable_log_probs(scores: Float[Tensor, "B C V"], vocab: Vocabulary) -> Float[Tensor, "B C V"]:
    """The logs of the model's probabilities among the tokens it may choose; `-inf` at PAD and BOS."""
    return forbid(finite(scores), vocab).log_softmax(-1)


def truth_and_best(
    keys: Float[Tensor, "B C V"], truth: Int[Tensor, "B C"], vocab: Vocabulary, k: int
) -> Int[Tensor, "B C K"]:
    """The true token, then the k - 1 other choosable tokens with the highest keys: K is k, or all that there are.

    A token with key `-inf` is not taken; slots that nothing is left for repeat the true token.
    """
    truth = truth.unsqueeze(-1)
    taken = torch.arange(keys.shape[-1], device=keys.device) == truth
    best, tokens = forbid(keys, vocab).masked_fill(taken, -math.inf).topk(min(k, len(vocab.choosable)) - 1)
    return torch.cat([truth, torch.where(best > -math.inf, tokens, truth)], -1)
