"""What a model does along prefixes, true ones and its own: where it errs, and what the right tokens cost it there."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.costs import EditDistance, Hamming
from searnn.interfaces import Stepper
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.oracles import CopyTarget, OptimalEdit
from searnn.searching.branching import repeated
from searnn.sequences import forbid, reference_tokens, valid_cells
from searnn.types import Batch, Branches

COUNTS = ("cells", "mistakes", "loss", "entropy", "first_cells", "first_mistakes", "later_cells", "later_mistakes")


@torch.no_grad()
def scored(model: Stepper, batch: Batch, prefix: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
    """The scores of every token along the prefixes; of those that are never chosen they are minus infinity."""
    model = with_trace(model)
    with evaluating(model):
        scores, _ = model.trace(model.encode(batch.inputs), prefix)
    return forbid(scores, model.vocab)


@torch.no_grad()
def along(model: Stepper, batch: Batch, prefix: Int[Tensor, "B T"]) -> dict[str, float]:
    """What was counted at the cells of these prefixes, summed over them.

    A token is right if the best output is still within reach after it: the oracle goes on from there, by the edit
    distance, or position by position where the length is known. A mistake is a cell at which the model prefers another;
    a search whose roll-outs are the oracle's has something to learn there, and nowhere else. The loss is the negative
    log-probability of the right tokens together; cells up to the first mistake are the first, the others later ones.
    """
    batch = batch.with_vocab(model.vocab)
    log_probs = scored(model, batch, prefix).log_softmax(-1)
    preferred = log_probs.argmax(-1)
    tokens, costs = costs_to_go(prefix, preferred, batch)
    least = costs.amin(-1, keepdim=True)
    right = (costs == least) & ~repeated(tokens)
    loss = -log_probs.gather(2, tokens).masked_fill(~right, -torch.inf).logsumexp(-1)
    entropy = -(log_probs.exp() * log_probs.masked_fill(log_probs == -torch.inf, 0)).sum(-1)
    cells = valid_cells(prefix, batch)
    wrong = (costs[..., -1] > least.squeeze(-1)) & cells
    later = cells & (wrong.cumsum(1) - wrong.long() > 0)
    found = (cells, wrong, loss * cells, entropy * cells, cells & ~later, wrong & ~later, later, wrong & later)
    return {name: float(values.sum()) for name, values in zip(COUNTS, found, strict=True)}


def costs_to_go(
    prefix: Int[Tensor, "B T"], preferred: Int[Tensor, "B T"], batch: Batch
) -> tuple[Int[Tensor, "B T K"], Float[Tensor, "B T K"]]:
    """The tokens that may be right at each cell, the preferred one last, and the least distance after each of them.

    Those that the truth does not have are never better than those that it has, so that only the latter are looked at.
    """
    vocab = batch.vocabulary
    cells = torch.arange(prefix.shape[1], device=prefix.device).expand_as(prefix)
    truth = reference_tokens(batch)
    if vocab.eos is None:
        known = torch.where(truth == vocab.pad, truth[:, :1], truth).unsqueeze(-1)
    else:
        known = truth.unsqueeze(1).expand(-1, prefix.shape[1], -1)
    tokens = torch.cat([known, preferred.unsqueeze(-1)], dim=-1)
    branches = Branches(prefix, cells, tokens, torch.ones_like(tokens, dtype=torch.bool))
    if vocab.eos is None:
        costs = Hamming(vocab).closed_form(CopyTarget.name, branches, batch)
    else:
        costs = EditDistance(vocab, normalised=False).closed_form(OptimalEdit.name, branches, batch)
    assert costs is not None  # these two have a form
    return tokens, costs
