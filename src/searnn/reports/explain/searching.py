"""The paper's Figure 1 in numbers: what the search finds for one example, under every choice that is offered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import rng, schedules
from searnn.algorithms import search
from searnn.interfaces import Cost, Encoded, RollIn, RollOut, TokenSampler
from searnn.models import with_trace
from searnn.models.looking import looked_at
from searnn.models.modes import evaluating
from searnn.sequences import true_tokens, valid_cells
from searnn.sequences.ends import forbid
from searnn.types import Batch, Vocabulary

ALL_TOKENS = 64  # a vocabulary of so many tokens is shown whole
MOST_TOKENS = 40  # of a larger one so many are shown
TOP = 5  # of the model's best tokens at each cell that may be among them
MOST_CELLS = 80


@dataclass(frozen=True)
class Moment:
    """A model as it was at one time of its training."""

    name: str
    step: int
    model: Any


@dataclass(frozen=True)
class Choices:
    """What can be switched between, by name; `tokens` is the sampler of training, None where all tokens are costed."""

    roll_ins: Mapping[str, RollIn]
    roll_outs: Mapping[str, RollOut]
    cost: Cost
    tokens: TokenSampler | None = None


@dataclass(frozen=True)
class Standing:
    """One roll-in of one model: the prefix, and what the model thinks at each of its cells."""

    prefix: Int[Tensor, "1 T"]
    cells: int
    logs: Float[Tensor, "C V"]  # of the model's probabilities
    drawn: tuple[tuple[int, ...], ...] | None  # the candidates that training would have drawn at each cell
    looks: Float[Tensor, "C S"] | None


@dataclass(frozen=True)
class Given:
    """A roll-in that is known already."""

    prefix: Int[Tensor, "1 T"]

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The prefix."""
        return self.prefix


@dataclass(frozen=True)
class Rows:
    """The same candidates at every cell: the rows of the picture."""

    tokens: tuple[int, ...]
    distinct: ClassVar[bool] = True

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        return torch.tensor(self.tokens, device=cells.device).expand(*cells.shape, -1)


@dataclass(frozen=True)
class FirstCells:
    """The first `count` cells."""

    count: int

    def __call__(self, prefix: Int[Tensor, "B T"], batch: Batch, rng: torch.Generator) -> Int[Tensor, "B C"]:
        return torch.arange(self.count, device=prefix.device).expand(len(prefix), -1)


def explore(moments: Sequence[Moment], batch: Batch, choices: Choices, seed: int = 0) -> dict[str, Any]:
    """Everything that the page shows of one example, as plain lists.

    `standings[moment][roll_in]` has the prefix and, for each cell, the logs of the model's probabilities of the `rows`;
    `views[moment][roll_in][roll_out]` is a number in `searches`, each with `costs[cell][row]` and
    `tails[cell][row]`, the tokens that the roll-out wrote after the row's. Equal searches are kept once.
    """
    batch = batch.with_vocab(moments[0].model.vocab)
    stood = [[_stand(moment, batch, name, choices, seed) for name in choices.roll_ins] for moment in moments]
    rows = choose_rows(batch, [standing for each in stood for standing in each])
    searches: dict[str, int] = {}
    found: list[dict[str, Any]] = []
    views: list[list[list[int]]] = []
    for moment, each in zip(moments, stood, strict=True):
        views.append([])
        for standing in each:
            views[-1].append([])
            for name, policy in choices.roll_outs.items():
                draw = rng.generator(seed, "explain", name)  # the same coins at every time
                out = _search(moment, batch, standing, policy, choices.cost, rows, draw)
                number = searches.setdefault(repr(out), len(found))
                if number == len(found):
                    found.append(out)
                views[-1][-1].append(number)
    return {
        "rows": list(rows),
        "hidden_tokens": len(batch.vocabulary.choosable) - len(rows),
        "hidden_cells": max(_length(batch, standing) - standing.cells for each in stood for standing in each),
        "standings": [[_plain(standing, rows, batch.vocabulary) for standing in each] for each in stood],
        "views": views,
        "searches": found,
    }


def choose_rows(batch: Batch, stood: Sequence[Standing], most: int = MOST_TOKENS) -> tuple[int, ...]:
    """The tokens that are shown, all or those that matter, in the order of the cells where they first do.

    First come the true ones, then those of the roll-ins, then the model's best, then what training would draw.
    """
    vocab = batch.vocabulary
    if len(vocab.choosable) <= ALL_TOKENS:
        return vocab.choosable
    first: dict[int, int] = {}

    def add(token: int, cell: int) -> None:
        if token in first:
            first[token] = min(first[token], cell)
        elif len(first) < most and token in choosable:
            first[token] = cell

    choosable = set(vocab.choosable)
    cells = max(standing.cells for standing in stood)
    for cell, token in enumerate(true_tokens(batch, torch.arange(cells)[None])[0].tolist()):
        add(token, cell)
    for standing in stood:
        for cell, token in enumerate(standing.prefix[0, : standing.cells].tolist()):
            add(token, cell)
    best = [standing.logs.topk(min(TOP, vocab.size)).indices.tolist() for standing in stood]
    for rank in range(min(TOP, vocab.size)):
        for each in best:
            for cell, ranked in enumerate(each):
                add(ranked[rank], cell)
    for standing in stood:
        for cell, drawn in enumerate(standing.drawn or ()):
            for token in drawn:
                add(token, cell)
    return tuple(sorted(first, key=lambda token: (first[token], token)))


@torch.no_grad()
def _stand(moment: Moment, batch: Batch, name: str, choices: Choices, seed: int) -> Standing:
    """Roll in, and look at the model's mind at every cell."""
    model = with_trace(moment.model)
    policy = schedules.at(choices.roll_ins[name], moment.step)
    with evaluating(model):
        memory = model.encode(batch.inputs)
        prefix = policy.roll_in(Encoded(model, memory), batch, rng.generator(seed, "explain", name))
        scores, _ = model.trace(memory, prefix)
        looks = looked_at(moment.model, memory, prefix)
    cells = min(int(valid_cells(prefix, batch).sum()), MOST_CELLS)
    drawn = None
    if choices.tokens is not None:
        sampler = schedules.at(choices.tokens, moment.step)
        at = torch.arange(cells, device=prefix.device)[None]
        tokens = sampler(scores[:, :cells], batch, at, rng.generator(seed, "explain", "tokens"))
        drawn = tuple(tuple(dict.fromkeys(each)) for each in tokens[0].tolist())
    logs = forbid(scores[0, :cells].double(), batch.vocabulary).log_softmax(-1).cpu()
    return Standing(prefix, cells, logs, drawn, None if looks is None else looks[0, :cells].cpu())


def _search(
    moment: Moment,
    batch: Batch,
    standing: Standing,
    policy: RollOut,
    cost: Cost,
    rows: tuple[int, ...],
    draw: torch.Generator,
) -> dict[str, Any]:
    """The costs of the rows at every cell and how their outputs end."""
    result = search(
        moment.model,
        batch,
        roll_in=Given(standing.prefix),
        roll_out=schedules.at(policy, moment.step),
        cost=cost,
        tokens=Rows(rows),
        cells=FirstCells(standing.cells),
        rng=draw,
    )
    pad = batch.vocabulary.pad
    outputs = result.outputs[0].tolist()
    tails = [
        [[token for token in output[cell + 1 :] if token != pad] for output in each]
        for cell, each in enumerate(outputs)
    ]
    return {"costs": _rounded(result.costs[0]), "tails": tails}


def _length(batch: Batch, standing: Standing) -> int:
    return int(valid_cells(standing.prefix, batch).sum())


def _plain(standing: Standing, rows: tuple[int, ...], vocab: Vocabulary) -> dict[str, Any]:
    """A roll-in as plain lists."""
    drawn = None
    if standing.drawn is not None:
        places = {token: place for place, token in enumerate(rows)}
        drawn = [sorted(places[token] for token in each if token in places) for each in standing.drawn]
    return {
        "prefix": [token for token in standing.prefix[0].tolist() if token != vocab.pad][: standing.cells],
        "logs": _rounded(standing.logs[:, list(rows)]),
        "drawn": drawn,
        "looks": None if standing.looks is None else _rounded(standing.looks, 3),
    }


def _rounded(values: Float[Tensor, "C N"], digits: int = 4) -> list[list[float]]:
    return [[round(value, digits) for value in row] for row in values.double().tolist()]
