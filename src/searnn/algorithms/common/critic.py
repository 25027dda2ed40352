"""What actor-critic training needs besides the actor: the critic, delayed copies, and a reward for every token."""

from __future__ import annotations

from copy import deepcopy
from typing import Literal, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from searnn.algorithms.common.paths import costs_of
from searnn.interfaces import Cost
from searnn.models import EncoderDecoder
from searnn.types import Batch, Inputs, Vocabulary

Network = TypeVar("Network", bound=nn.Module)


class Critic(nn.Module):
    """Q(a; ŷ_<t, y): what token a will bring at each cell of an output ŷ, for one who knows the truth y.

    An encoder-decoder that reads the truth in place of the input, and whose scores are the values. Where outputs have
    a known length it sees the truth at its own position, else it attends to all of it.
    """

    def __init__(self, vocab: Vocabulary, width: int) -> None:
        super().__init__()
        attention: Literal["aligned", "additive"] = "aligned" if vocab.eos is None else "additive"
        self.network = EncoderDecoder(
            vocab, source_size=vocab.embeddings, width=width, bidirectional=True, attention=attention,
            rng=torch.default_generator,
        )  # fmt: skip

    def forward(self, outputs: Int[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T V"]:
        """The value of every token at every cell; `[:, t]` has seen `outputs[:, :t]`."""
        lengths = (batch.targets != batch.vocabulary.pad).sum(1)
        memory = self.network.encode(Inputs(batch.targets, lengths))
        values, _ = self.network.trace(memory, outputs)
        return values.to(torch.promote_types(values.dtype, torch.float32))


@torch.no_grad()
def prefix_costs(
    cost: Cost, outputs: Int[Tensor, "B T"], batch: Batch, like: Float[Tensor, "..."]
) -> Float[Tensor, "B T+1"]:
    """What the first 0, 1, ... tokens cost, taken as an output; the last is the cost of the whole output."""
    length = outputs.shape[1]
    kept = torch.ones(length + 1, length, dtype=torch.bool, device=outputs.device).tril(-1)  # [T+1, T]
    prefixes = torch.where(kept, outputs.unsqueeze(1), batch.vocabulary.pad)  # [B, T+1, T]
    return costs_of(cost, prefixes, batch, like)


def frozen(network: Network) -> Network:
    """A copy that no gradient changes."""
    return deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(copy: nn.Module, network: nn.Module, rate: Float[Tensor, ""] | None) -> None:
    """Move the copy towards the network, in place: θ' ← θ' + rate (θ - θ'); all the way where there is no rate."""
    copied, own = ([parameter.detach() for parameter in part.parameters()] for part in (copy, network))
    if rate is None:  # exactly, which the sum is not
        torch._foreach_copy_(copied, own)
    else:
        moves = torch._foreach_sub(own, copied)
        torch._foreach_mul_(moves, rate)
        torch._foreach_add_(copied, moves)
    for kept, buffer in zip(copy.buffers(), network.buffers(), strict=True):
        kept.copy_(buffer)
