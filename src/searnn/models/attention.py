"""Additive attention of Bahdanau et al. (2015) over the rows of each example, without repeating its memory."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from searnn.engine import replaceable


@replaceable
def additive_scores(
    queries: Float[Tensor, "B R A"], keys: Float[Tensor, "B S A"], weight: Float[Tensor, "1 A"]
) -> Float[Tensor, "B R S"]:
    """v · tanh(q_r + k_s) for every row and source position."""
    mixed = torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))  # [B, R, S, A]
    return functional.linear(mixed, weight).squeeze(-1)


class AdditiveAttention(nn.Module):
    """weights(r, s) = softmax_s v · tanh(W q_r + U m_s); the context is the weighted sum of the memory."""

    def __init__(self, query: int, memory: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query, width)
        self.key = nn.Linear(memory, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def keys(self, features: Float[Tensor, "B S F"]) -> Float[Tensor, "B S A"]:
        """U m_s, once per example."""
        return self.key(features)  # type: ignore[no-any-return]

    def weights(
        self, queries: Float[Tensor, "B R D"], keys: Float[Tensor, "B S A"], mask: Bool[Tensor, "B S"]
    ) -> Float[Tensor, "B R S"]:
        """How much every row looks at each source position."""
        scores = additive_scores(self.query(queries), keys, self.score.weight)
        # Not minus infinity: an empty source would give NaN.
        return scores.masked_fill(~mask.unsqueeze(1), torch.finfo(scores.dtype).min).softmax(-1)

    def forward(
        self,
        queries: Float[Tensor, "B R D"],
        keys: Float[Tensor, "B S A"],
        features: Float[Tensor, "B S F"],
        mask: Bool[Tensor, "B S"],
    ) -> Float[Tensor, "B R F"]:
        """The context of every row."""
        return torch.bmm(self.weights(queries, keys, mask), features)
