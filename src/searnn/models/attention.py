"""Additive attention of Bahdanau et al. (2015) over the rows of each example, without repeating its memory."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from searnn.devices import reads_are_free


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
        queries = self.query(queries)
        if torch.is_grad_enabled() or not reads_are_free(keys.device):
            mixed = torch.tanh(queries.unsqueeze(2) + keys.unsqueeze(1))  # [B, R, S, A]
            scores: Tensor = self.score(mixed).squeeze(-1)
        else:  # tanh x is 2 sigmoid(2 x) - 1, which a CPU computes faster, and the softmax does not see the constant
            mixed = ((2 * queries).unsqueeze(2) + (2 * keys).unsqueeze(1)).sigmoid_()
            scores = mixed @ (2 * self.score.weight[0])
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
