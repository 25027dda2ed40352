"""Maximum likelihood in plain PyTorch, as one would write it without this package: what everything is compared with.

Nothing of this package is used here but names for profiles. The model has the sizes and the architecture of ours, the
update is the usual one: `nn.GRU`, cross-entropy, clipping, Adam. Sources of different lengths are packed, which is
faster than padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from searnn.engine import span


class PlainModel(nn.Module):
    """A GRU encoder-decoder, optionally in both directions and with additive attention on the decoder's output."""

    def __init__(
        self,
        tokens: int,
        embeddings: int,
        width: int,
        *,
        features: int | None = None,
        source_size: int | None = None,
        bidirectional: bool = False,
        attention: bool = False,
    ) -> None:
        super().__init__()
        self.read = nn.Embedding(source_size, width) if source_size is not None else None
        self.encoder = nn.GRU(features or width, width, batch_first=True, bidirectional=bidirectional)
        both = 2 * width if bidirectional else width
        self.bridge = nn.Linear(both, width) if bidirectional else None
        self.embed = nn.Embedding(embeddings, width)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.attention = attention
        if attention:
            self.query = nn.Linear(width, width)
            self.key = nn.Linear(both, width, bias=False)
            self.energy = nn.Linear(width, 1, bias=False)
            self.combine = nn.Linear(width + both, width)
        self.project = nn.Linear(width, tokens)

    def encode(
        self, source: Tensor, lengths: Sequence[int] | None
    ) -> tuple[Float[Tensor, "B S F"], Float[Tensor, "1 B D"]]:
        """What is known at each source position, and the decoder's first state; `lengths` None: all are full."""
        values = self.read(source) if self.read is not None else source
        if lengths is None:
            outputs, last = self.encoder(values)
        else:
            packed = pack_padded_sequence(values, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
            outputs, last = self.encoder(packed)
            outputs, _ = pad_packed_sequence(outputs, batch_first=True)
        if self.bridge is not None:
            last = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=-1))).unsqueeze(0)
        return outputs, last

    def decode(
        self,
        outputs: Float[Tensor, "B S F"],
        first: Float[Tensor, "1 B D"],
        inputs: Int[Tensor, "B T"],
        lengths: Sequence[int] | None,
    ) -> Float[Tensor, "B T V"]:
        """The scores of every cell, given the true tokens before it."""
        hidden, _ = self.decoder(self.embed(inputs), first)
        if self.attention:
            energies = self.energy(torch.tanh(self.query(hidden).unsqueeze(2) + self.key(outputs).unsqueeze(1)))
            energies = energies.squeeze(-1)
            if lengths is not None:
                positions = torch.arange(outputs.shape[1], device=outputs.device)
                real = positions < torch.tensor(lengths, device=outputs.device).unsqueeze(1)
                energies = energies.masked_fill(~real.unsqueeze(1), -torch.inf)
            context = torch.bmm(energies.softmax(-1), outputs)
            hidden = self.combine(torch.cat([hidden, context], dim=-1))
        return self.project(hidden)  # type: ignore[no-any-return]


def cross_entropy(scores: Float[Tensor, "B T V"], targets: Int[Tensor, "B T"], pad: int) -> Float[Tensor, ""]:
    """Summed over the cells of a sequence, averaged over sequences."""
    summed = functional.cross_entropy(scores.flatten(0, 1), targets.flatten(), ignore_index=pad, reduction="sum")
    return summed / len(targets)


def shifted(targets: Int[Tensor, "B T"], bos: int) -> Int[Tensor, "B T"]:
    """What the decoder reads: BOS, then all true tokens but the last."""
    return torch.cat([torch.full_like(targets[:, :1], bos), targets[:, :-1]], dim=1)


def train_plainly(
    model: PlainModel,
    optimizer: torch.optim.Optimizer,
    source: Tensor,
    lengths: Sequence[int] | None,
    targets: Int[Tensor, "B T"],
    bos: int,
    pad: int,
) -> Float[Tensor, ""]:
    """One update; the spans take no time but under a profiler."""
    with span("optimiser"):
        optimizer.zero_grad()
    with span("encode"):
        outputs, first = model.encode(source, lengths)
    with span("trace"):
        scores = model.decode(outputs, first, shifted(targets, bos), lengths)
    with span("loss"):
        loss = cross_entropy(scores, targets, pad)
    with span("backward"):
        loss.backward()  # type: ignore[no-untyped-call]
    with span("optimiser"):
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
    return loss.detach()
