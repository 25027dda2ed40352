"""Outputs from the start: greedy, by beam search, or sampled; all on the model's `step`."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.decoding.beam import beam_search
from searnn.decoding.loop import Choose, Greedy, sampling, unroll
from searnn.interfaces import Memory, Stepper
from searnn.models.modes import evaluating
from searnn.rng import uniform
from searnn.tree import take_rows
from searnn.types import Batch, Rows, SearnnError


def start_rows(model: Stepper, memory: Memory, batch: Batch) -> tuple[object, Rows]:
    """One unwritten row per example, and its state."""
    outputs = torch.full_like(batch.targets, model.vocab.pad).unsqueeze(1)
    cells = torch.full_like(batch.lengths, -1).unsqueeze(1)
    return model.start(memory), Rows(outputs, cells, batch.lengths.unsqueeze(1))


def roll_from_start(model: Stepper, memory: Memory, batch: Batch, choose: Choose) -> Int[Tensor, "B T"]:
    """One output per example, each token as `choose` says."""
    state, rows = start_rows(model, memory, batch)
    return unroll(model, memory, state, rows, choose, [1] * max(batch.limits(), default=0)).squeeze(1)


@torch.no_grad()
def decode(model: Stepper, batch: Batch, *, beam: int = 1, length_penalty: float = 1.0) -> Int[Tensor, "B T"]:
    """The model's own output for every example: greedy, or the best of a beam."""
    if beam == 1:
        with evaluating(model):
            return roll_from_start(model, model.encode(batch.inputs), batch, Greedy(model.vocab))
    return decode_beam(model, batch, width=beam, length_penalty=length_penalty, best=1)[0][:, 0]


@torch.no_grad()
def decode_beam(
    model: Stepper, batch: Batch, *, width: int, length_penalty: float = 1.0, best: int | None = None
) -> tuple[Int[Tensor, "B W T"], Float[Tensor, "B W"]]:
    """The `width` best outputs of every example, best first, with their length-normalised scores.

    Where only the `best` of them are asked for, the others may be unfinished.
    """
    with evaluating(model):
        memory = model.encode(batch.inputs)
        return decode_from(model, memory, batch, width=width, length_penalty=length_penalty, best=best)


def decode_from(
    model: Stepper, memory: Memory, batch: Batch, *, width: int, length_penalty: float, best: int | None = None
) -> tuple[Int[Tensor, "B W T"], Float[Tensor, "B W"]]:
    """The same from an encoded batch."""
    state, rows = start_rows(model, memory, batch)
    steps = [1] * max(batch.limits(), default=0)
    outputs, scores = beam_search(
        model, memory, state, rows, steps, width=width, length_penalty=length_penalty, best=best
    )
    return outputs.squeeze(1), scores.squeeze(1)


@torch.no_grad()
def sample(
    model: Stepper, batch: Batch, *, count: int = 1, temperature: float = 1.0, rng: torch.Generator
) -> Int[Tensor, "B N T"]:
    """`count` outputs per example drawn from the model's probabilities."""
    if count < 1 or not temperature > 0:
        raise SearnnError(f"sampling needs a count of at least 1 and a temperature over 0, got {count}, {temperature}")
    with evaluating(model):
        memory = model.encode(batch.inputs)
        state, rows = start_rows(model, memory, batch)
        spread = torch.zeros(len(batch.targets), count, dtype=torch.long, device=batch.targets.device)
        state, rows = take_rows((state, rows), spread)
        draws = uniform(rows.outputs.shape, rng, rows.outputs.device)
        choose = sampling(model.vocab, draws, temperature)
        return unroll(model, memory, state, rows, choose, [count] * max(batch.limits(), default=0))
