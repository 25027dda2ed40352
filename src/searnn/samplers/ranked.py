"""Candidates by the model's own ranking: the best k, or those it can hardly tell from its best."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.rng import uniform
from searnn.samplers.candidates import Candidates, choosable_log_probs, finite, truth_and_best
from searnn.sequences import true_tokens
from searnn.settings import Setting, checked
from searnn.types import Batch

Threshold = Annotated[float, Setting("targeted tokens: how near to the top probability", ge=0, le=1)]


@checked
class TopTokens:
    """The paper's "top-k": the true token and the k - 1 others with the highest scores."""

    name: ClassVar[str] = "top"
    k: Candidates

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        return truth_and_best(finite(scores), true_tokens(batch, cells), batch.vocabulary, self.k)


@checked
class TargetedTokens:
    """Targeted sampling: the true token and those whose probability is within `threshold` of the highest.

    Where there are more than k - 1 of them they are thinned at random; unused slots repeat the true token, which the
    search masks. So a cell where the model is sure costs few roll-outs. Probabilities are among the choosable tokens.
    """

    name: ClassVar[str] = "targeted"
    k: Candidates
    threshold: Threshold = 0.5

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        probs = choosable_log_probs(scores, batch.vocabulary).exp()
        near = probs.amax(-1, keepdim=True) - probs <= self.threshold
        keys = uniform(scores.shape, rng, scores.device).masked_fill(~near, -math.inf)
        return truth_and_best(keys, true_tokens(batch, cells), batch.vocabulary, self.k)
