"""Candidates drawn at random without replacement: uniformly, from the current policy, or from a flattened policy.

Adding Gumbel noise to log-weights and keeping the highest draws without replacement, one token after the other, each
with a probability in proportion to its weight among those left.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.rng import uniform
from searnn.samplers.candidates import Candidates, choosable_log_probs, truth_and_best
from searnn.sequences import true_tokens
from searnn.settings import Setting, checked
from searnn.types import Batch


@checked
class UniformTokens:
    """The paper's "uni.": the true token and k - 1 others, drawn uniformly without replacement."""

    name: ClassVar[str] = "uniform"
    k: Candidates

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        keys = uniform(scores.shape, rng, scores.device)
        return truth_and_best(keys, true_tokens(batch, cells), batch.vocabulary, self.k)


@checked
class PolicyTokens:
    """The paper's "pol.": the true token and k - 1 others, drawn from the model's probabilities without replacement."""

    name: ClassVar[str] = "policy"
    k: Candidates

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        return _draw(scores, 1.0, self.k, batch, cells, rng)


@checked
class BiasedTokens:
    """The paper's "bias.": as `PolicyTokens`, with the low-probability tokens boosted.

    The paper gives no formula. Our reading: the weights are `p(a)^boost` with boost between 0 (uniform) and 1 (the
    policy itself), which raises the improbable tokens against the probable ones and keeps their order.
    """

    name: ClassVar[str] = "biased"
    k: Candidates
    boost: Annotated[float, Setting("biased tokens: power of the model's probabilities", gt=0, lt=1)] = 0.5

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        return _draw(scores, self.boost, self.k, batch, cells, rng)


def _draw(
    scores: Float[Tensor, "B C V"],
    power: float,
    k: int,
    batch: Batch,
    cells: Int[Tensor, "B C"],
    rng: torch.Generator,
) -> Int[Tensor, "B C K"]:
    """The true token and k - 1 others drawn with weights `p(a)^power`."""
    # Below the bound a weight is 0 for every purpose; it keeps digits for the noise, which decides among such tokens.
    log_weights = choosable_log_probs(scores, batch.vocabulary).clamp(min=-1e4)
    noise = uniform(scores.shape, rng, scores.device).clamp(min=torch.finfo(torch.float32).tiny)
    keys = power * log_weights - torch.log(-torch.log(noise))
    return truth_and_best(keys, true_tokens(batch, cells), batch.vocabulary, k)
