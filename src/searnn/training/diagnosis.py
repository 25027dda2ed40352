"""Why training succeeds or fails: what the costs of one batch look like, and how the model does on its own prefixes."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.algorithms.searnn import Searnn, search
from searnn.interfaces import Algorithm, Cost, Encoded, Stepper
from searnn.losses import LogLoss
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.policies import Learned, Reference
from searnn.samplers import AllCells, AllTokens, TopTokens, UniformCells
from searnn.sequences import forbid, reference_tokens, valid_cells
from searnn.types import Batch

ALL_OF = 64  # tokens, and cells, up to which all are tried
FEW = 10  # of them where there are more


@torch.no_grad()
def diagnose(
    model: Stepper, batch: Batch, algorithm: Algorithm, rng: torch.Generator, *, cost: Cost | None = None
) -> dict[str, Tensor]:
    """One search over `batch` with the algorithm's own settings, summed up in scalars.

    An algorithm without a search of its own is looked at with learned roll-in and roll-out under `cost`, a few
    candidates at some of the cells where the vocabulary is large or outputs are long; without a cost only what needs
    none is given.
    """
    model = with_trace(model)
    batch = batch.with_vocab(model.vocab)
    logs: dict[str, Tensor] = {}
    with evaluating(model):
        memory = model.encode(batch.inputs)
        truth, own = (policy.roll_in(Encoded(model, memory), batch, rng) for policy in (Reference(), Learned()))
        forced, free = model.trace(memory, truth)[0], model.trace(memory, own)[0]
    logs["entropy"] = entropy(forbid(free, model.vocab), valid_cells(own, batch))
    logs["teacher_forced_loss"] = true_token_loss(forbid(forced, model.vocab), truth, batch)
    logs["free_running_loss"] = true_token_loss(forbid(free, model.vocab), own, batch)
    logs["exposure_gap"] = logs["free_running_loss"] - logs["teacher_forced_loss"]
    looking = algorithm if isinstance(algorithm, Searnn) else None
    if looking is None and cost is not None:
        looking = with_learned_rolls(cost, model.vocab.size, batch.targets.shape[1])
    return logs | cost_logs(model, batch, looking, rng) if looking is not None else logs


def with_learned_rolls(cost: Cost, vocabulary: int, length: int) -> Searnn:
    """A search for looking only: every token of a small vocabulary at every cell of short outputs, else a few of both,
    so that it costs about a decoding.
    """
    tokens = AllTokens() if vocabulary <= ALL_OF else TopTokens(k=FEW)
    cells = AllCells() if max(vocabulary, length) <= ALL_OF else UniformCells(n=FEW)
    return Searnn(roll_in=Learned(), roll_out=Learned(), cost=cost, loss=LogLoss(), tokens=tokens, cells=cells)


def cost_logs(model: Stepper, batch: Batch, settings: Searnn, rng: torch.Generator) -> dict[str, Tensor]:
    """How the candidates' costs differ within cells."""
    found = search(
        model, batch, roll_in=settings.roll_in, roll_out=settings.roll_out, cost=settings.cost, tokens=settings.tokens,
        cells=settings.cells, rng=rng,
    )  # fmt: skip
    cells = found.valid.any(-1)
    dearest = found.costs.masked_fill(~found.valid, -torch.inf).amax(-1)
    cheapest = found.costs.masked_fill(~found.valid, torch.inf).amin(-1)
    spread = torch.where(cells, dearest - cheapest, 0)
    true = reference_tokens(batch).gather(1, found.cells)
    is_true = found.valid & (found.tokens == true.unsqueeze(-1))
    true_cost = found.costs.masked_fill(~is_true, torch.inf).amin(-1)
    return {
        "equal_cost_share": mean(spread == 0, cells),
        "cost_spread": mean(spread, cells),
        "cheapest_not_true_share": mean(true_cost > cheapest, cells),
    }


def mean(values: Tensor, counted: Bool[Tensor, "B C"]) -> Float[Tensor, ""]:
    """The mean of `values` over the cells that count."""
    return (values.to(torch.get_default_dtype()) * counted).sum() / counted.sum().clamp(min=1)


def entropy(scores: Float[Tensor, "B T V"], counted: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The mean entropy of the model's distribution, in nats."""
    log_probs = scores.log_softmax(-1)
    terms = log_probs.exp() * log_probs.masked_fill(log_probs == -torch.inf, 0)
    return mean(-terms.sum(-1), counted)


def true_token_loss(scores: Float[Tensor, "B T V"], prefix: Int[Tensor, "B T"], batch: Batch) -> Float[Tensor, ""]:
    """The mean negative log-probability of the true token at the cells of `prefix`."""
    counted = valid_cells(prefix, batch)
    true = torch.where(counted, reference_tokens(batch), batch.vocabulary.choosable[0])
    losses = -scores.log_softmax(-1).gather(2, true.unsqueeze(-1)).squeeze(-1)
    return mean(losses, counted)
