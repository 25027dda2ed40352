"""A Transformer encoder-decoder (Vaswani et al., 2017) whose rows share the prefix that they were forked from."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from searnn.models.encoder import PositionedSource, real_positions, sinusoids
from searnn.models.initialise import initialise
from searnn.models.multihead import DecoderLayer, EncoderLayer, Heads
from searnn.models.sizes import Dropout, Feedforward, HeadCount, Layers, Width
from searnn.models.stepping import shift_right
from searnn.settings import check
from searnn.types import Inputs, SearnnError, Vocabulary


class TransformerMemory(NamedTuple):
    """What all rows of an example attend to, in every layer: the source `[B, H, S, E]` and a prefix `[B, H, T, E]`."""

    source: tuple[Heads, ...]
    mask: Bool[Tensor, "B 1 1 S"]
    prefix: tuple[Heads, ...]  # of no positions until rows are forked from a traced sequence


class TransformerState(NamedTuple):
    """One row: how many inputs of the prefix it sees, and in every layer the n it wrote itself, `[B, R, H, n, E]`."""

    suffix: tuple[Heads, ...]
    seen: Int[Tensor, "B R"]


class TransformerEncoder(nn.Module):
    """Tokens or feature vectors with their positions, then layers of self-attention, blind to padding."""

    def __init__(
        self, *, features: int | None, source_size: int | None, width: int, layers: int, heads: int, inside: int,
        dropout: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.source = PositionedSource(features=features, source_size=source_size, width=width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads, inside, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: Tensor, mask: Bool[Tensor, "B 1 1 S"]) -> Float[Tensor, "B S D"]:
        """What is known at each source position."""
        values = self.dropout(self.source(values))
        for layer in self.layers:
            values = layer(values, mask)
        return self.norm(values)  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Pre-norm encoder-decoder with sinusoidal positions, so that no length is too long.

    A fork copies nothing: the keys and values of the prefix belong to the memory, one for each example, and every row
    owns only those of the suffix that it writes. Dropout acts on what enters and on what every sublayer adds.
    """

    name: ClassVar[str] = "transformer"

    def __init__(
        self,
        vocab: Vocabulary,
        *,
        features: int | None = None,
        source_size: int | None = None,
        width: Width = 128,
        layers: Layers = 2,
        heads: HeadCount = 4,
        feedforward: Feedforward = None,
        dropout: Dropout = 0.0,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check(Transformer, locals())
        inside = feedforward if feedforward is not None else 4 * width
        if (features is None) == (source_size is None):
            raise SearnnError("a model reads either feature vectors or tokens: give one of features and source_size")
        if width % heads:
            raise SearnnError(f"width is {width}, it must be a multiple of the number of heads, {heads}")
        self.vocab = vocab
        self.inside = inside
        self.encoder = TransformerEncoder(
            features=features, source_size=source_size, width=width, layers=layers, heads=heads, inside=inside,
            dropout=dropout,
        )  # fmt: skip
        self.embed = nn.Embedding(vocab.embeddings, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads, inside, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(width, vocab.size)
        initialise(self, rng if rng is not None else torch.default_generator)

    @property
    def same_in_training(self) -> bool:
        """Without dropout the search may use what the gradient pass computes."""
        return self.dropout.p == 0

    def row_bytes(self, memory: TransformerMemory, length: int) -> int:
        """About how many bytes one row takes in a step: its suffix before and after, attention weights and scores."""
        kept = memory.source[0].keys  # [B, H, S, E]
        width, heads = self.embed.embedding_dim, kept.shape[1]
        seen = kept.shape[2] + memory.prefix[0].keys.shape[2] + length
        numbers = 4 * len(memory.source) * length * width + 4 * seen * heads
        numbers += 8 * width + 2 * self.inside + 4 * self.vocab.size
        return kept.element_size() * numbers

    def encode(self, inputs: Inputs) -> TransformerMemory:
        """Run the encoder; project once what every layer of the decoder attends to."""
        mask = real_positions(inputs.lengths, inputs.values.shape[1])
        # Of a source that is all padding one position stays visible, its value zero: attention to nothing may be NaN.
        visible = real_positions(inputs.lengths.clamp(min=1), inputs.values.shape[1])[:, None, None]
        features = self.encoder(inputs.values, visible)
        projected = (layer.source.keep(features) for layer in self._decoder())
        source = tuple(Heads(keys, values * mask[:, None, :, None]) for keys, values in projected)
        return TransformerMemory(source, visible, tuple(Heads(*(part[:, :, :0] for part in kept)) for kept in source))

    def start(self, memory: TransformerMemory) -> TransformerState:
        """One row per example, BOS not yet consumed."""
        return self._rows(memory, torch.zeros(len(memory.mask), 1, dtype=torch.long, device=memory.mask.device))

    def step(
        self, memory: TransformerMemory, state: TransformerState, tokens: Int[Tensor, "B R"]
    ) -> tuple[Float[Tensor, "B R V"], TransformerState]:
        """Consume one token per row; score the next."""
        shared, written = memory.prefix[0].keys.shape[2], state.suffix[0].keys.shape[3]
        visible = torch.arange(shared, device=tokens.device) < state.seen.unsqueeze(-1)  # [B, R, T]
        positions = sinusoids(shared + written + 1, self.embed.weight)
        values = self._enter(tokens, functional.embedding(state.seen + written, positions))
        suffixes = []
        for layer, prefix, suffix, source in zip(
            self._decoder(), memory.prefix, state.suffix, memory.source, strict=True
        ):
            values, grown = layer.advance(values, prefix, visible.unsqueeze(1), suffix, source, memory.mask)
            suffixes.append(grown)
        return self.project(self.norm(values)), TransformerState(tuple(suffixes), state.seen)

    def trace(
        self, memory: TransformerMemory, tokens: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], tuple[Heads, ...]]:
        """Score a given sequence; the trail is every layer's keys and values of it."""
        values = self._enter(shift_right(tokens, self.vocab.bos), sinusoids(tokens.shape[1], self.embed.weight))
        trail = []
        for layer, source in zip(self._decoder(), memory.source, strict=True):
            values, kept = layer.sequence(values, source, memory.mask)
            trail.append(kept)
        return self.project(self.norm(values)), tuple(trail)

    def fork(
        self, memory: TransformerMemory, trail: tuple[Heads, ...], cells: Int[Tensor, "B R"]
    ) -> tuple[TransformerMemory, TransformerState]:
        """The traced sequence joins the memory; a row before cell c sees BOS and c tokens of it."""
        return memory._replace(prefix=trail), self._rows(memory, cells + 1)

    def _decoder(self) -> list[DecoderLayer]:
        return list(self.layers)  # type: ignore[arg-type]

    def _enter(self, tokens: Int[Tensor, "B R"], positions: Float[Tensor, "*B R D"]) -> Float[Tensor, "B R D"]:
        """What the first layer reads: embeddings scaled to the size of the positions."""
        return self.dropout(self.embed(tokens) * math.sqrt(self.embed.embedding_dim) + positions)  # type: ignore[no-any-return]

    def _rows(self, memory: TransformerMemory, seen: Int[Tensor, "B R"]) -> TransformerState:
        """Rows that have written nothing themselves."""
        suffix = []
        for kept in memory.source:
            _, heads, _, size = kept.keys.shape
            suffix.append(Heads(*(part.new_zeros(*seen.shape, heads, 0, size) for part in kept)))
        return TransformerState(tuple(suffix), seen)
