"""Minimum-Bayes-risk decoding: of several outputs the one that costs least if each of them may be the truth."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.decoding.decode import decode, decode_beam, sample
from searnn.interfaces import Cost, Stepper
from searnn.sequences import at_cells
from searnn.types import Batch

PAIRS = 1 << 16  # outputs that are compared at once: what a cost makes of each takes memory too


@torch.no_grad()
def decode_mbr(
    model: Stepper,
    batch: Batch,
    *,
    samples: int,
    cost: Cost,
    temperature: float = 1.0,
    beam: int | None = None,
    rng: torch.Generator,
) -> Int[Tensor, "B T"]:
    """For every example, of `samples` outputs drawn from the model, the one that costs least against all of them.

    With a `beam` the greedy output and those of a beam of this width may be chosen too.
    """
    drawn = sample(model, batch, count=samples, temperature=temperature, rng=rng)
    if beam is None:
        return least_risk(drawn, cost)
    known = [decode(model, batch).unsqueeze(1), decode_beam(model, batch, width=beam)[0]]
    return least_risk(drawn, cost, also=torch.cat(known, dim=1))


def least_risk(
    outputs: Int[Tensor, "B N T"], cost: Cost, also: Int[Tensor, "B M T"] | None = None
) -> Int[Tensor, "B T"]:
    """The output of each example with the least mean cost, each of the outputs taken for the truth; ties: the first.

    `also` are further outputs that may be chosen, such as those of a beam: they come first, and are no truths.
    """
    truths, counts = _distinct(outputs)
    choices = truths if also is None else torch.cat([also, truths], dim=1)
    risks = (pairwise_costs(choices, truths, cost) * counts.unsqueeze(1)).sum(-1)
    return _chosen(choices, risks)


def least_cost(outputs: Int[Tensor, "B N T"], targets: Int[Tensor, "B L"], cost: Cost) -> Int[Tensor, "B T"]:
    """The output of each example that costs least against the truth: the best of N, which only an oracle can choose."""
    return _chosen(outputs, cost(outputs, targets))


def pairwise_costs(
    outputs: Int[Tensor, "B N T"], references: Int[Tensor, "B M L"], cost: Cost
) -> Float[Tensor, "B N M"]:
    """What each output costs against each reference of its example."""
    (count, each, _), among = outputs.shape, references.shape[1]
    found = []
    for rows in torch.split(torch.arange(count, device=outputs.device), max(1, PAIRS // (each * among))):
        repeated = outputs[rows].unsqueeze(1).expand(-1, among, -1, -1).flatten(0, 1)  # [B·M, N, T]
        costs = cost(repeated, references[rows].flatten(0, 1))
        found.append(costs.view(len(rows), among, each).transpose(1, 2))
    return torch.cat(found)


def _chosen(outputs: Int[Tensor, "B N T"], costs: Float[Tensor, "B N"]) -> Int[Tensor, "B T"]:
    best = costs.argmin(1).view(-1, 1, 1).expand(-1, 1, outputs.shape[-1])
    return outputs.gather(1, best).squeeze(1)


def _distinct(outputs: Int[Tensor, "B N T"]) -> tuple[Int[Tensor, "B U T"], Int[Tensor, "B U"]]:
    """The outputs of each example without repetitions, as they first come, and how often each does.

    A sure model draws the same again and again. Where an example has fewer than others, some follow with a count of 0.
    """
    _, kinds = torch.unique(outputs.flatten(0, 1), dim=0, return_inverse=True)
    kinds = kinds.view(outputs.shape[:2])
    same = kinds.unsqueeze(2) == kinds.unsqueeze(1)  # [B, N, N]
    first = same.int().argmax(-1) == torch.arange(outputs.shape[1], device=outputs.device)
    order = first.sort(dim=1, descending=True, stable=True).indices[:, : int(first.sum(1).max())]
    counts = (same.sum(-1) * first).gather(1, order)
    return at_cells(outputs, order), counts
