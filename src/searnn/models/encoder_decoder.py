"""The encoder-decoder of the paper's experiments, in all its settings, stepped over any number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from searnn import tree
from searnn.engine import replaceable
from searnn.models.attention import AdditiveAttention
from searnn.models.encoder import ConvEncoder, Encoder, real_positions
from searnn.models.initialise import initialise
from searnn.models.layers import LAYERS, Gates, Layer, LstmLayer
from searnn.models.sizes import Attention, Bidirectional, Dropout, Embedding, Layers, Width, Window
from searnn.models.stepping import shift_right
from searnn.settings import Setting, check
from searnn.types import Inputs, SearnnError, Vocabulary

Cell = Annotated[Literal["gru", "lstm"], Setting("what the layers are", public=False)]
Reader = Annotated[Literal["recurrent", "convolutional"], Setting("what reads the source", public=False)]
MOST_IN_TABLE = 4096  # tokens whose gates are computed beforehand; for more it would cost more than it saves


class RecurrentMemory(NamedTuple):
    """What the decoder keeps of the input; fields that a setting does not need are None."""

    hidden: tuple[Float[Tensor, "B D"], ...]  # the first state of every layer
    carry: tuple[Float[Tensor, "B D"], ...]  # likewise, for LSTM layers
    features: Float[Tensor, "B S F"] | None
    keys: Float[Tensor, "B S A"] | None
    mask: Bool[Tensor, "B S"] | None
    seen: Gates | None  # what the aligned features add to the first layer's gates, each [B, S, G]
    table: tree.Constant | None  # the first layer's gates of every token, each [V, G]


class RecurrentState(NamedTuple):
    """One row: the hidden state (and LSTM carry) of every layer; for aligned models the cell that is scored next.

    `gates` are those of the hidden state where they are known: rows forked from one cell share this product.
    """

    hidden: tuple[Float[Tensor, "B R D"], ...]
    carry: tuple[Float[Tensor, "B R D"], ...]
    position: Int[Tensor, "B R"] | None
    gates: tuple[Gates, ...] = ()


class RecurrentTrail(NamedTuple):
    """A traced sequence: its tokens and every layer's hidden state at each cell."""

    tokens: Int[Tensor, "B T"]
    hidden: tuple[Float[Tensor, "B T D"], ...]


class EncoderDecoder(nn.Module):
    """GRU or LSTM encoder-decoder (the paper's h_t = f(h_{t-1}, y_{t-1}, x), s_t = proj(h_t)).

    `attention` is "none" (the encoder's last state starts the decoder, and that is all it sees), "additive" (attention
    on the decoder's output, without input feeding, so that a whole sequence is scored by the library's kernel) or
    "aligned" (labelling: the decoder also reads the encoder's output at its own position). `encoder` is "recurrent", or
    "convolutional" with additive attention over averages of `window` positions (the paper's comparison with MIXER).
    """

    def __init__(
        self,
        vocab: Vocabulary,
        *,
        features: int | None = None,
        source_size: int | None = None,
        width: Width = 128,
        layers: Layers = 1,
        cell: Cell = "gru",
        bidirectional: Bidirectional = False,
        attention: Attention = "none",
        embedding: Embedding = None,
        dropout: Dropout = 0.0,
        encoder: Reader = "recurrent",
        window: Window = 5,
        rng: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        check(EncoderDecoder, locals())
        embedding = embedding if embedding is not None else width
        if (features is None) == (source_size is None):
            raise SearnnError("a model reads either feature vectors or tokens: give one of features and source_size")
        convolutional = encoder == "convolutional"
        if convolutional and (attention != "additive" or bidirectional):
            raise SearnnError(f"a convolutional encoder has no directions and needs attention='additive', got "
                              f"attention={attention!r} and bidirectional={bidirectional}")  # fmt: skip
        self.vocab = vocab
        self.attention = attention
        source: dict[str, int | None] = {"features": features, "source_size": source_size}
        self.encoder: Encoder | ConvEncoder
        if convolutional:
            self.encoder = ConvEncoder(**source, width=embedding, window=window, layers=layers, dropout=dropout)
        else:
            self.encoder = Encoder(
                **source, embedding=embedding, width=width, layers=layers, cell=cell,
                bidirectional=bidirectional, dropout=dropout if source_size is not None else 0.0,
            )  # fmt: skip
        self.embed = nn.Embedding(vocab.embeddings, embedding)
        seen = self.encoder.width if attention == "aligned" else 0
        sizes = [embedding + seen, *[width] * (layers - 1)]
        self.layers = nn.ModuleList(LAYERS[cell](size, width) for size in sizes)
        # Deviation: where the encoder's last state cannot be the decoder's first (two directions, no recurrence, or
        # an LSTM's second state, which the library's kernel gives only at the padded end), a learned tanh layer joins
        # them.
        bridged = bidirectional or convolutional
        self.bridge = nn.ModuleList(nn.Linear(self.encoder.width, width) for _ in sizes) if bridged else None
        carries = len(sizes) if LAYERS[cell].has_carry else 0
        self.carry_bridge = nn.ModuleList(nn.Linear(self.encoder.width, width) for _ in range(carries))
        self.attend = AdditiveAttention(width, self.encoder.width, width) if attention == "additive" else None
        self.combine = nn.Linear(width + self.encoder.width, width) if self.attend is not None else None
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(width, vocab.size)
        if rng is not None:
            initialise(self, rng)

    @property
    def same_in_training(self) -> bool:
        """Without dropout the search may use what the gradient pass computes."""
        return self.dropout.p == 0

    def row_bytes(self, memory: RecurrentMemory, length: int) -> int:
        """About how many bytes one row takes in a step: states and gates, scores, and attention over the source."""
        size = memory.hidden[0].element_size()
        numbers = 8 * sum(part.shape[-1] for part in (*memory.hidden, *memory.carry)) + 4 * self.vocab.size
        if memory.keys is not None:
            numbers += 2 * memory.keys.shape[1] * memory.keys.shape[2]
        return size * numbers

    def encode(self, inputs: Inputs) -> RecurrentMemory:
        """Run the encoder; compute once what every step needs."""
        features, finals = self.encoder(inputs)
        hidden = tuple(finals)
        if self.bridge is not None:
            hidden = tuple(torch.tanh(bridge(final)) for bridge, final in zip(self.bridge, finals, strict=True))
        carry = tuple(torch.tanh(bridge(final)) for bridge, final in zip(self.carry_bridge, finals, strict=False))
        table = None
        if (self.same_in_training or not self.training) and self.vocab.embeddings <= MOST_IN_TABLE:
            table = tree.Constant(self._decoder()[0].enter(self.embed.weight, self.of_tokens))
        if self.attention == "none":
            return RecurrentMemory(hidden, carry, None, None, None, None, table)
        mask = real_positions(inputs.lengths, features.shape[1])
        features = features * mask.unsqueeze(-1)
        keys = self.attend.keys(features) if self.attend is not None else None
        seen = None
        if self.attention == "aligned":
            columns = slice(self.embed.embedding_dim, None)
            seen = self._decoder()[0].enter(self.dropout(features), columns, bias=False)
        return RecurrentMemory(hidden, carry, features, keys, mask, seen, table)

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """One row per example, BOS not yet consumed."""
        hidden, carry = tree.map_leaves(lambda leaf: leaf.unsqueeze(1), (memory.hidden, memory.carry))
        position = None
        if self.attention == "aligned":
            position = torch.zeros(hidden[0].shape[:2], dtype=torch.long, device=hidden[0].device)
        return RecurrentState(hidden, carry, position)

    def step(
        self, memory: RecurrentMemory, state: RecurrentState, tokens: Int[Tensor, "B R"]
    ) -> tuple[Float[Tensor, "B R V"], RecurrentState]:
        """Consume one token per row; score the next."""
        hiddens: list[Tensor] = []
        carries: list[Tensor] = []
        entering = self._enter(memory, tokens, state.position)
        for index, layer in enumerate(self._decoder()):
            if index:
                entering = layer.enter(self.dropout(hiddens[-1]))
            own = state.gates[index] if state.gates else None
            carry = state.carry[index] if state.carry else None
            hidden, carry = layer.advance(entering, state.hidden[index], carry, own)
            hiddens.append(hidden)
            if carry is not None:
                carries.append(carry)
        position = None if state.position is None else state.position + 1
        return self._read_out(memory, hiddens[-1]), RecurrentState(tuple(hiddens), tuple(carries), position)

    def trace(
        self, memory: RecurrentMemory, tokens: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], RecurrentTrail]:
        """Score a given sequence with the library's fused layers."""
        values = self._inputs(memory, tokens)
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
        gates = () if torch.is_grad_enabled() else shared_products(self._decoder(), trail.hidden)
        states = (trail.hidden, self._carries(memory, trail), gates)
        hidden, carry, gates = tree.take_rows(states, cells)
        return memory, RecurrentState(hidden, carry, cells + 1 if self.attention == "aligned" else None, gates)

    def _decoder(self) -> list[Layer]:
        return list(self.layers)  # type: ignore[arg-type]

    def _inputs(self, memory: RecurrentMemory, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
        """What the first layer reads at each cell of a sequence."""
        values = self.embed(shift_right(tokens, self.vocab.bos))
        if self.attention != "aligned":
            return values  # type: ignore[no-any-return]
        assert memory.features is not None
        cells = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return torch.cat([values, aligned(memory.features, cells)], dim=-1)

    @property
    def of_tokens(self) -> slice:
        """The columns of the first layer's input that hold the token's embedding."""
        return slice(self.embed.embedding_dim)

    def _enter(self, memory: RecurrentMemory, tokens: Int[Tensor, "B R"], position: Int[Tensor, "B R"] | None) -> Gates:
        """W x + b of the first layer: by a table of all tokens where there is one."""
        if memory.table is not None:
            gates: Gates = tuple(functional.embedding(tokens, part) for part in memory.table.value)
        else:
            gates = self._decoder()[0].enter(self.dropout(self.embed(tokens)), self.of_tokens)
        if position is None or memory.seen is None:
            return gates
        return tuple(gate + aligned(seen, position) for gate, seen in zip(gates, memory.seen, strict=True))

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
        values = self._inputs(memory, trail.tokens)
        found = []
        for index, layer in enumerate(self._decoder()):
            assert isinstance(layer, LstmLayer)
            outputs = trail.hidden[index]
            found.append(layer.carries(values, outputs, memory.hidden[index], memory.carry[index]))
            values = outputs
        return tuple(found)


@replaceable
def shared_products(layers: Sequence[Layer], hidden: Sequence[Float[Tensor, "B T D"]]) -> tuple[Gates, ...]:
    """U h of every layer at every cell, which all rows that are forked there share."""
    return tuple(layer.recur(states) for layer, states in zip(layers, hidden, strict=True))


def aligned(values: Float[Tensor, "B S F"], position: Int[Tensor, "B R"]) -> Float[Tensor, "B R F"]:
    """The source vector at each row's own position, zero past the end."""
    inside = position < values.shape[1]
    index = torch.where(inside, position, 0).unsqueeze(-1).expand(-1, -1, values.shape[-1])
    return values.gather(1, index) * inside.unsqueeze(-1)
