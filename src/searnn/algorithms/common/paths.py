"""Whole outputs drawn from the model, their log-probabilities and costs: what methods of expected cost are made of."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn import tree
from searnn.algorithms.common.losses import total
from searnn.algorithms.common.settings import Normalisation
from searnn.decoding import Choose, Standing, sampling, unroll
from searnn.decoding.decode import start_rows
from searnn.interfaces import Cost, Memory, Model, Stepper
from searnn.models.modes import evaluating
from searnn.rng import uniform
from searnn.searching import Reading, bind
from searnn.sequences import forbid, reference_tokens
from searnn.types import Batch, SearnnError


class Paths(NamedTuple):
    """Finished outputs and what the model, with gradient, thinks of them."""

    outputs: Int[Tensor, "B R T"]
    counted: Bool[Tensor, "B R T"]  # the cells that exist: up to and with EOS
    scores: Float[Tensor, "B R T V"]  # as the model gives them, in at least 32 bits
    log_probs: Float[Tensor, "B R T V"]  # minus infinity at PAD and BOS
    chosen: Float[Tensor, "B R T"]  # log-probabilities of the outputs' own tokens, 0 where there is no cell


def read(model: Stepper, batch: Batch) -> tuple[Model, Batch, Memory, Memory]:
    """Model and batch as algorithms take them, and the batch encoded: with gradient, and without it or dropout."""
    reading = Reading(model, batch)
    memory = reading.memory
    with reading.searching():
        return reading.model, reading.batch, memory, reading.encode().memory


@torch.no_grad()
def draw(
    model: Model, memory: Memory, batch: Batch, rng: torch.Generator, count: int = 1, given: int = 0
) -> Int[Tensor, "B R T"]:
    """`count` outputs per example from the model's probabilities, after `given` cells of the truth."""
    with evaluating(model):
        state, rows = start_rows(model, memory, batch)
        spread = torch.zeros(len(batch.targets), count, dtype=torch.long, device=batch.targets.device)
        state, rows = tree.take_rows((state, rows), spread)
        draws = uniform(rows.outputs.shape, rng, rows.outputs.device)
        choose = sampling(model.vocab, draws, 1.0)
        if given:
            choose = _after_truth(choose, batch, given)
        return unroll(model, memory, state, rows, choose, [count] * max(batch.limits()))


def _after_truth(choose: Choose, batch: Batch, given: int) -> Choose:
    truth = reference_tokens(batch)

    def choose_or_copy(scores: Tensor, standing: Standing) -> Tensor:
        copied = truth.gather(1, standing.position)
        return torch.where(standing.position < given, copied, choose(scores, standing))

    return choose_or_copy


def rescore(model: Model, memory: Memory, outputs: Int[Tensor, "B R T"]) -> Paths:
    """Finished outputs scored in one teacher-forced pass, with gradient: every row is an example of its own."""
    vocab, rows = model.vocab, outputs.shape[1]
    if rows > 1:  # expanded, not indexed: the gradient is then a sum in a fixed order
        memory = tree.map_leaves(lambda leaf: leaf.unsqueeze(1).expand(-1, rows, *leaf.shape[1:]).flatten(0, 1), memory)
    scores, _ = model.trace(memory, outputs.flatten(0, 1))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).view(*outputs.shape, vocab.size)
    log_probs = forbid(scores, vocab).log_softmax(-1)
    counted = outputs != vocab.pad
    tokens = torch.where(counted, outputs, vocab.choosable[0])
    chosen = log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    return Paths(outputs, counted, scores, log_probs, torch.where(counted, chosen, 0))


@torch.no_grad()
def costs_of(
    cost: Cost, outputs: Int[Tensor, "B *N T"], batch: Batch, like: Float[Tensor, "..."]
) -> Float[Tensor, "B *N"]:
    """What finished outputs cost, in the type of `like`."""
    costs = bind(cost, batch.vocabulary)(outputs, batch.targets)
    if costs.shape != outputs.shape[:-1]:
        told = f"the cost gave shape {list(costs.shape)}, expected one number per output"
        raise SearnnError(f"{told}: {list(outputs.shape[:-1])}")
    return costs.to(like.dtype)


def entropies(log_probs: Float[Tensor, "*N V"]) -> Float[Tensor, "*N"]:
    """The entropy of each cell's probabilities."""
    return -(log_probs.exp() * log_probs.masked_fill(log_probs == -torch.inf, 0)).sum(-1)


def total_of_paths(
    losses: Float[Tensor, "B R T"], counted: Bool[Tensor, "B R T"], normalisation: Normalisation
) -> Float[Tensor, ""]:
    """The losses of all cells as one, a mean over the R outputs of an example."""
    summed = total(losses.flatten(1), counted.flatten(1), normalisation)
    return summed if normalisation == "cell" else summed / losses.shape[1]


def mean_over(values: Float[Tensor, "*N"], counted: Bool[Tensor, "*N"]) -> Float[Tensor, ""]:
    """The mean of the counted values, for the logs."""
    return (values.detach() * counted).sum() / counted.sum().clamp(min=1)
