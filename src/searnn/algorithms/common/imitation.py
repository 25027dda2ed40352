"""What imitation shares: the oracle's token at every visited cell, and the log-loss of given tokens after a prefix."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from searnn.algorithms.common.losses import total
from searnn.algorithms.common.settings import Normalisation
from searnn.algorithms.mle import cross_entropy
from searnn.interfaces import Model, Oracle
from searnn.sequences import reference_tokens
from searnn.types import Batch, Branches, Update


def oracle_tokens(oracle: Oracle, prefix: Int[Tensor, "B T"], batch: Batch) -> Int[Tensor, "B T"]:
    """What the oracle writes at each cell after the tokens that `prefix` has before it.

    One completion for every cell but the first, where nothing is written yet: there it is the truth's first token.
    Cells that do not exist have some token or other.
    """
    first = reference_tokens(batch)[:, :1]
    if prefix.shape[1] == 1:
        return first
    vocab = batch.vocabulary
    before = prefix[:, :-1]
    written = before != vocab.pad
    cells = torch.arange(before.shape[1], device=prefix.device).expand_as(before)
    tokens = torch.where(written, before, vocab.choosable[0]).unsqueeze(-1)
    completed = oracle.complete(Branches(prefix, cells, tokens, written.unsqueeze(-1)), batch)  # [B, T-1, 1, T]
    following = completed.squeeze(2).gather(2, (cells + 1).unsqueeze(-1)).squeeze(-1)
    return torch.cat([first, following], dim=1)


def learn_tokens(
    model: Model,
    batch: Batch,
    prefix: Int[Tensor, "B T"],
    targets: Int[Tensor, "B T"],
    counted: Bool[Tensor, "B T"],
    normalisation: Normalisation,
) -> Update:
    """-log p(targets | x, prefix) at the counted cells, in one pass over `prefix` with gradient.

    `off_truth_share` is the share of an example's counted cells where the prefix has another token than the truth.
    """
    scores, _ = model.trace(model.encode(batch.inputs), prefix)
    loss = total(cross_entropy(scores, targets, counted, model.vocab), counted, normalisation)
    off = (counted & (prefix != reference_tokens(batch))).sum(1) / counted.sum(1).clamp(min=1)
    return Update(loss, {"loss": loss.detach(), "off_truth_share": off.mean()}, cells=counted.sum())
