"""The encoder-decoder of the paper's experiments, in all its settings, stepped over any number of rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from searnn import tree
from searnn.models.attention import AdditiveAttention
from searnn.models.cells import LAYERS, Layer
from searnn.models.encoder import Encoder
from searnn.models.initialise import initialise
from searnn.models.stepping import shift_right
from searnn.types import Inputs, SearnnError, Vocabulary

ATTENTIONS = ("none", "additive", "aligned")


class RecurrentMemory(NamedTuple):
    """What the decoder keeps of the input; fields that a setting does not need are None."""

    hidden: tuple[Float[Tensor, "B D"], ...]  # the first state of every layer
    carry: tuple[Float[Tensor, "B D"], ...]  # likewise, for LSTM layers
    features: Float[Tensor, "B S F"] | None
    keys: Float[Tensor, "B S A"] | None
    mask: Bool[Tensor, "B S"] | None


class RecurrentState(NamedTuple):
    """One row: the hidden state (and LSTM carry) of every layer, and the cell that is scored next.

    `gates` are those of the hidden state where they are known: rows forked from one cell share this product.
    """

    hidden: tuple[Float[Tensor, "B R D"], ...]
    carry: tuple[Float[Tensor, "B R D"], ...]
    position: Int[Tensor, "B R"]
    gates: tuple[Float[Tensor, "B R G"], ...] = ()


class RecurrentTrail(NamedTuple):
    """A traced sequence: its tokens and every layer's hidden state at each cell."""

    tokens: Int[Tensor, "B T"]
    hidden: tuple[Float[Tensor, "B T D"], ...]


class EncoderDecoder(nn.Module):
    """GRU or LSTM encoder-decoder (the paper's h_t = f(h_{t-1}, y_{t-1}, x), s_t = proj(h_t)).

    `attention` is "none" (the encoder's last state starts the decoder, and that is all it sees), "additive" (attention
    on the decoder's output, without input feeding, so that a whole sequence is scored by the library's kernel) or
    "aligned" (labelling: the decoder also reads the encoder's output at its own position).
    """

    def __init__(
        self,
        vocab: Vocabulary,
        *,
        features: int | None = None,
        source_size: int | None = None,
        width: int = 128,
        layers: int = 1,
        cell: str = "gru",
        bidirectional: bool = False,
        attention: str = "none",
        embedding: int | None = None,
        dropout: float = 0.0,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        embedding = embedding if embedding is not None else width
        if (features is None) == (source_size is None):
            raise SearnnError("a model reads either feature vectors or tokens: give one of features and source_size")
        if cell not in LAYERS or attention not in ATTENTIONS:
            raise SearnnError(f"cell {cell!r} and attention {attention!r}: known are {list(LAYERS)} and {ATTENTIONS}")
        if min(width, layers, embedding) < 1 or not 0 <= dropout < 1:
            raise SearnnError(f"width, layers and embedding must be at least 1 and dropout in [0, 1), got "
                              f"{width}, {layers}, {embedding} and {dropout}")  # fmt: skip
        self.vocab = vocab
        self.attention = attention
        self.encoder = Encoder(
            features=features, source_size=source_size, embedding=embedding, width=width, layers=layers, cell=cell,
            bidirectional=bidirectional, dropout=dropout if source_size is not None else 0.0,
        )  # fmt: skip
        self.embed = nn.Embedding(vocab.embeddings, embedding)
        seen = self.encoder.width if attention == "aligned" else 0
        sizes = [embedding + seen, *[width] * (layers - 1)]
        self.layers = nn.ModuleList(LAYERS[cell](size, width) for size in sizes)
        # Deviation: where the encoder's last state cannot be the decoder's first (two directions, or an LSTM's second
        # state, which the library's kernel gives only at the padded end), a learned tanh layer joins them.
        self.bridge = nn.ModuleList(nn.Linear(self.encoder.width, width) for _ in sizes) if bidirectional else None
        carries = len(sizes) if LAYERS[cell].has_carry else 0
        self.carry_bridge = nn.ModuleList(nn.Linear(self.encoder.width, width) for _ in range(carries))
        self.attend = AdditiveAttention(width, self.encoder.width, width) if attention == "additive" else None
        self.combine = nn.Linear(width + self.encoder.width, width) if self.attend is not None else None
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(width, vocab.size)
        if rng is not None:
            initialise(self, rng)

    def encode(self, inputs: Inputs) -> RecurrentMemory:
        """Run the encoder; project its outputs once for attention."""
        features, finals = self.encoder(inputs)
        hidden = tuple(finals) if self.bridge is None else tuple(
            torch.tanh(bridge(final)) for bridge, final in zip(self.bridge, finals, strict=True)
        )  # fmt: skip
        carry = tuple(torch.tanh(bridge(final)) for bridge, final in zip(self.carry_bridge, finals, strict=False))
        if self.attention == "none":
            return RecurrentMemory(hidden, carry, None, None, None)
        mask = torch.arange(features.shape[1], device=features.device) < inputs.lengths.unsqueeze(1)
        features = features * mask.unsqueeze(-1)
        keys = self.attend.keys(features) if self.attend is not None else None
        return RecurrentMemory(hidden, carry, features, keys, mask)

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """One row per example, BOS not yet consumed."""
        hidden, carry = tree.map_leaves(lambda leaf: leaf.unsqueeze(1), (memory.hidden, memory.carry))
        position = torch.zeros(hidden[0].shape[:2], dtype=torch.long, device=hidden[0].device)
        return RecurrentState(hidden, carry, position)

    def step(
        self, memory: RecurrentMemory, state: RecurrentState, tokens: Int[Tensor, "B R"]
    ) -> tuple[Float[Tensor, "B R V"], RecurrentState]:
        """Consume one token per row; score the next."""
        hiddens: list[Tensor] = []
        carries: list[Tensor] = []
        gates = self._token_gates(memory, tokens, state.position)
        for index, layer in enumerate(self._decoder()):
            if index:
                gates = functional.linear(self.dropout(hiddens[-1]), layer.weight_ih_l0, layer.bias_ih_l0)
            own = state.gates[index] if state.gates else layer.recur(state.hidden[index])
            carry = state.carry[index] if state.carry else None
            hidden, carry = layer.advance(gates, own, state.hidden[index], carry)
            hiddens.append(hidden)
            if carry is not None:
                carries.append(carry)
        scores = self._read_out(memory, hiddens[-1])
        return scores, RecurrentState(tuple(hiddens), tuple(carries), state.position + 1)

    def trace(
        self, memory: RecurrentMemory, tokens: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], RecurrentTrail]:
        """Score a given sequence with the library's fused layers."""
        values = self._entering(memory, tokens)
        hiddens: list[Tensor] = []
        for index, layer in enumerate(self._decoder()):
            entering = self.dropout(values)
            values = layer.sequence(entering, memory.hidden[index], memory.carry[index] if memory.carry else None)
            hiddens.append(values)
        return self._read_out(memory, values), RecurrentTrail(tokens, tuple(hiddens))

    def fork(
        self, memory: RecurrentMemory, trail: RecurrentTrail, cells: Int[Tensor, "B R"]
    ) -> tuple[RecurrentMemory, RecurrentState]:
        """The traced states at `cells`."""
        shared = [] if torch.is_grad_enabled() else zip(self._decoder(), trail.hidden, strict=True)
        gates = tuple(layer.recur(hidden) for layer, hidden in shared)
        states = (trail.hidden, self._carries(memory, trail), gates)
        hidden, carry, gates = tree.take_rows(states, cells)
        return memory, RecurrentState(hidden, carry, cells + 1, gates)

    def _decoder(self) -> list[Layer]:
        return list(self.layers)  # type: ignore[arg-type]

    def _entering(self, memory: RecurrentMemory, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
        """What the first layer reads at each cell of a sequence."""
        values = self.embed(shift_right(tokens, self.vocab.bos))
        if self.attention != "aligned":
            return values  # type: ignore[no-any-return]
        assert memory.features is not None
        cells = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return torch.cat([values, aligned(memory.features, cells)], dim=-1)

    def _token_gates(
        self, memory: RecurrentMemory, tokens: Int[Tensor, "B R"], position: Int[Tensor, "B R"]
    ) -> Float[Tensor, "B R G"]:
        """W x + b of the first layer: by a table of all tokens where there are more rows than tokens."""
        layer = self._decoder()[0]
        embedding = self.embed.embedding_dim
        weight, bias = layer.weight_ih_l0, layer.bias_ih_l0
        if self.training or tokens.numel() < self.vocab.embeddings:  # dropout differs from row to row
            gates = functional.linear(self.dropout(self.embed(tokens)), weight[:, :embedding], bias)
        else:
            gates = functional.embedding(tokens, functional.linear(self.embed.weight, weight[:, :embedding], bias))
        if self.attention == "aligned":
            assert memory.features is not None
            seen = self.dropout(memory.features)
            gates = gates + aligned(functional.linear(seen, weight[:, embedding:]), position)
        return gates

    def _read_out(self, memory: RecurrentMemory, hidden: Float[Tensor, "B R D"]) -> Float[Tensor, "B R V"]:
        if self.attend is not None and self.combine is not None:
            assert memory.features is not None
            assert memory.keys is not None
            assert memory.mask is not None
            context = self.attend(hidden, memory.keys, memory.features, memory.mask)
            hidden = self.combine(torch.cat([hidden, context], dim=-1))
        return self.project(self.dropout(hidden))  # type: ignore[no-any-return]

    def _carries(self, memory: RecurrentMemory, trail: RecurrentTrail) -> tuple[Float[Tensor, "B T D"], ...]:
        if not memory.carry:
            return ()
        values = self._entering(memory, trail.tokens)
        found = []
        for index, layer in enumerate(self._decoder()):
            outputs = trail.hidden[index]
            carry = layer.carries(values, outputs, memory.hidden[index], memory.carry[index])
            assert carry is not None
            found.append(carry)
            values = outputs
        return tuple(found)


def aligned(values: Float[Tensor, "B S F"], position: Int[Tensor, "B R"]) -> Float[Tensor, "B R F"]:
    """The source vector at each row's own position, zero past the end."""
    inside = position < values.shape[1]
    index = torch.where(inside, position, 0).unsqueeze(-1).expand(-1, -1, values.shape[-1])
    return values.gather(1, index) * inside.unsqueeze(-1)
