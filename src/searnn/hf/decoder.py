"""Rows of a decoder of transformers: their caches are aligned at their ends, what stands before is masked."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from searnn import tree
from searnn.devices import reads_are_free
from searnn.hf.caches import HuggingFaceMemory, HuggingFaceState
from searnn.models.multihead import Heads
from searnn.types import SearnnError, Vocabulary


class Decoder(nn.Module):
    """What encoder-decoders and causal models share: how rows are stepped, traced and forked.

    Rows forked at different cells have caches of different lengths: every row is given its own positions.
    """

    vocab: Vocabulary
    longest: int | None

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model

    @abstractmethod
    def encode(self, inputs: Any) -> HuggingFaceMemory:
        """Read the inputs once."""

    @abstractmethod
    def _run(
        self,
        memory: HuggingFaceMemory,
        own: tuple[Heads, ...],
        tokens: Int[Tensor, "N Q"],
        places: Int[Tensor, "N Q"],
        visible: Tensor | None,
    ) -> tuple[Float[Tensor, "N Q V"], tuple[Heads, ...]]:
        """Score tokens at their places after what is cached, of which 0s of `visible [N, n + Q]` are not seen."""

    def row_bytes(self, memory: HuggingFaceMemory, length: int) -> int:
        """About how many bytes one row takes in a step: its cache before and after, the source's, and scores."""
        keys = memory.begun[0].keys  # [B, H, n, E]
        across = memory.source[0].keys.shape[2] if memory.source else 0
        held = 2 * len(memory.begun) * keys.shape[1] * keys.shape[3] * (3 * (length + keys.shape[2]) + across)
        return keys.element_size() * (held + 4 * self.vocab.size)

    def start(self, memory: HuggingFaceMemory) -> HuggingFaceState:
        """One row per example, BOS not yet consumed."""
        begun = tree.map_leaves(lambda leaf: leaf.unsqueeze(1), memory.begun)
        return HuggingFaceState(begun, memory.seen.unsqueeze(1))

    def step(
        self, memory: HuggingFaceMemory, state: HuggingFaceState, tokens: Int[Tensor, "B R"]
    ) -> tuple[Float[Tensor, "B R V"], HuggingFaceState]:
        """Consume one token per row; score the next. The library knows no rows, so each has a copy of the source."""
        examples, rows = tokens.shape
        past = state.cache[0].keys.shape[3]
        visible = torch.arange(past + 1, device=tokens.device) >= past - state.seen.unsqueeze(-1)  # [B, R, n + 1]
        own, fed, places, seen = tree.map_leaves(
            lambda leaf: leaf.flatten(0, 1), (state.cache, self._fed(memory, tokens), state.seen, visible.long())
        )
        read = memory._replace(begun=())  # rows hold it already
        repeated = tree.map_leaves(lambda leaf: leaf.repeat_interleave(rows, dim=0), read)
        scores, written = self._run(repeated, own, fed.unsqueeze(1), places.unsqueeze(1), seen)
        grown = tree.map_leaves(lambda leaf: leaf.view(examples, rows, *leaf.shape[1:]), written)
        return scores.view(examples, rows, -1), HuggingFaceState(grown, state.seen + 1)

    def trace(
        self, memory: HuggingFaceMemory, tokens: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], tuple[Heads, ...]]:
        """Score a given sequence; the trail is every layer's keys and values of it, after those it begins with."""
        reads = torch.cat([memory.first.unsqueeze(1), self._fed(memory, tokens[:, :-1])], dim=1)
        places = torch.arange(tokens.shape[1], device=tokens.device) + memory.seen.unsqueeze(1)
        return self._run(memory, memory.begun, reads, places, self._seen_by_trace(memory, tokens))

    def fork(
        self, memory: HuggingFaceMemory, trail: tuple[Heads, ...], cells: Int[Tensor, "B R"]
    ) -> tuple[HuggingFaceMemory, HuggingFaceState]:
        """A row before cell c takes the trail up to BOS and c positions after it, aligned at their end."""
        begun = memory.begun[0].keys.shape[2]
        longest = trail[0].keys.shape[2]
        if reads_are_free(cells.device) and cells.numel():
            longest = begun + int(cells.max()) + 1
        places = torch.arange(longest, device=cells.device) - (longest - 1 - begun - cells.unsqueeze(-1))  # [B, R, n]
        index = places.clamp(min=0).flatten(1)

        def take(leaf: Tensor) -> Tensor:
            taken = tree.take_rows(leaf.transpose(1, 2), index)  # [B, R n, H, E]
            return taken.view(*places.shape, *taken.shape[2:]).transpose(2, 3)  # type: ignore[no-any-return]

        return memory, HuggingFaceState(tree.map_leaves(take, trail), memory.seen.unsqueeze(1) + cells + 1)

    def _fed(self, memory: HuggingFaceMemory, tokens: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
        """The ids that the model reads: its own in place of BOS, and of PAD where that lies beyond its own."""
        fed = torch.where(tokens == self.vocab.bos, memory.first.unsqueeze(1), tokens)
        return fed.masked_fill(tokens == self.vocab.pad, self.filling)

    def _seen_by_trace(self, memory: HuggingFaceMemory, tokens: Int[Tensor, "B T"]) -> Tensor | None:
        """None where nothing before the tokens is hidden."""
        begun = memory.begun[0].keys.shape[2]
        if not begun:
            return None
        columns = torch.arange(begun + tokens.shape[1], device=tokens.device)
        return (columns >= begun - memory.seen.unsqueeze(1)).long()

    def _check_call(self, length: int) -> None:
        """Refuse what the library would answer wrongly, or with an error that does not say what to do."""
        checkpointed = (getattr(part, "gradient_checkpointing", False) for part in self.model.modules())
        if self.model.training and any(checkpointed):
            told = f"gradient checkpointing of the {type(self.model).__name__} is on, which turns its cache off"
            raise SearnnError(f"{told}: call gradient_checkpointing_disable() on it")
        if self.longest is not None and length > self.longest:
            told = f"the model has positions for {self.longest} tokens, an output has {length}"
            raise SearnnError(f"{told}: shorten the targets, or take a model with more max_position_embeddings")

    @property
    @abstractmethod
    def filling(self) -> int:
        """The id that is fed for PAD."""
