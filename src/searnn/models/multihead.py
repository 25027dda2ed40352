"""Multi-head attention and the layers of a Transformer, over whole sequences or over rows that share a prefix."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional


class Heads(NamedTuple):
    """Keys and values of N positions in H heads of E: of an example, or of each of its rows."""

    keys: Float[Tensor, "B *R H N E"]
    values: Float[Tensor, "B *R H N E"]


class MultiHead(nn.Module):
    """Scaled dot-product attention (Vaswani et al., 2017); what is attended to is projected once and kept."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.combine = nn.Linear(width, width)

    def keep(self, values: Float[Tensor, "B N D"]) -> Heads:
        """Keys and values of a sequence, `[B, H, N, E]`."""
        return Heads(self._split(self.key(values)), self._split(self.value(values)))

    def extend(self, suffix: Heads, values: Float[Tensor, "B R D"]) -> Heads:
        """Every row's own keys and values `[B, R, H, n, E]` with those of one more position."""
        keys, values = (part.transpose(1, 2).unsqueeze(3) for part in self.keep(values))
        return Heads(torch.cat([suffix.keys, keys], dim=3), torch.cat([suffix.values, values], dim=3))

    def over_sequence(
        self, values: Float[Tensor, "B R D"], kept: Heads, mask: Bool[Tensor, "B 1 1 N"] | None
    ) -> Float[Tensor, "B R D"]:
        """Rows that all see the same masked sequence; without a mask, row r sees its positions 0 to r."""
        queries = self._split(self.query(values))
        found = functional.scaled_dot_product_attention(
            queries, kept.keys, kept.values, attn_mask=mask, is_causal=mask is None
        )
        return self.combine(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def over_rows(
        self, values: Float[Tensor, "B R D"], prefix: Heads, visible: Bool[Tensor, "B 1 R T"], suffix: Heads
    ) -> Float[Tensor, "B R D"]:
        """Rows that see a part of their example's prefix, and what they wrote themselves."""
        queries = self._split(self.query(values) / math.sqrt(values.shape[-1] // self.heads))  # [B, H, R, E]
        before = queries @ prefix.keys.transpose(2, 3)
        own = queries.transpose(1, 2).unsqueeze(3) @ suffix.keys.transpose(3, 4)  # [B, R, H, 1, n]
        # Minus infinity is safe: a row always sees the token that it has just consumed.
        scores = torch.cat([before.masked_fill(~visible, -torch.inf), own.squeeze(3).transpose(1, 2)], dim=-1)
        weights, shared = scores.softmax(-1), before.shape[-1]
        found = (weights[..., shared:].transpose(1, 2).unsqueeze(3) @ suffix.values).squeeze(3)  # [B, R, H, E]
        found = found + (weights[..., :shared] @ prefix.values).transpose(1, 2)
        return self.combine(found.flatten(2))  # type: ignore[no-any-return]

    def _split(self, values: Float[Tensor, "B N D"]) -> Float[Tensor, "B H N E"]:
        return values.view(*values.shape[:2], self.heads, values.shape[-1] // self.heads).transpose(1, 2)


class FeedForward(nn.Sequential):
    """Two layers at each position, normalised before."""

    def __init__(self, width: int, inside: int) -> None:
        super().__init__(nn.LayerNorm(width), nn.Linear(width, inside), nn.ReLU(), nn.Linear(inside, width))


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each added to what it read, normalised before (pre-norm)."""

    def __init__(self, width: int, heads: int, inside: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attend = MultiHead(width, heads)
        self.feed = FeedForward(width, inside)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Float[Tensor, "B S D"], mask: Bool[Tensor, "B 1 1 S"]) -> Float[Tensor, "B S D"]:
        """One layer over the source."""
        entering = self.norm(values)
        values = values + self.dropout(self.attend.over_sequence(entering, self.attend.keep(entering), mask))
        return values + self.dropout(self.feed(values))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Self-attention, attention over the source and feed-forward, pre-norm, by whole sequence or one step of rows."""

    def __init__(self, width: int, heads: int, inside: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attend = MultiHead(width, heads)
        self.source_norm = nn.LayerNorm(width)
        self.source = MultiHead(width, heads)
        self.feed = FeedForward(width, inside)
        self.dropout = nn.Dropout(dropout)

    def sequence(
        self, values: Float[Tensor, "B T D"], source: Heads, mask: Bool[Tensor, "B 1 1 S"]
    ) -> tuple[Float[Tensor, "B T D"], Heads]:
        """One layer over a given sequence, and its keys and values."""
        entering = self.norm(values)
        kept = self.attend.keep(entering)
        values = values + self.dropout(self.attend.over_sequence(entering, kept, None))
        return self._rest(values, source, mask), kept

    def advance(
        self,
        values: Float[Tensor, "B R D"],
        prefix: Heads,
        visible: Bool[Tensor, "B 1 R T"],
        suffix: Heads,
        source: Heads,
        mask: Bool[Tensor, "B 1 1 S"],
    ) -> tuple[Float[Tensor, "B R D"], Heads]:
        """One step of every row, and its longer suffix."""
        entering = self.norm(values)
        suffix = self.attend.extend(suffix, entering)
        values = values + self.dropout(self.attend.over_rows(entering, prefix, visible, suffix))
        return self._rest(values, source, mask), suffix

    def _rest(
        self, values: Float[Tensor, "B R D"], source: Heads, mask: Bool[Tensor, "B 1 1 S"]
    ) -> Float[Tensor, "B R D"]:
        values = values + self.dropout(self.source.over_sequence(self.source_norm(values), source, mask))
        return values + self.dropout(self.feed(values))  # type: ignore[no-any-return]
