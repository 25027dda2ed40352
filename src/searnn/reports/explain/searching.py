"""The paper's Figure 1 in numbers: what the search finds for one example, under every choice that is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
class RolledIn:
    """One roll-in of one model: the prefix, and what the model thinks at each of its cells."""

    prefix: Int[Tensor, "1 T"]
    cells: int
    hidden: int  # cells beyond those
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
class SameTokens:
    """The same candidates at every cell: those that the picture shows."""

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


def explore(
    moments: Sequence[Moment],
    batch: Batch,
    choices: Choices,
    seed: int = 0,
    order: Callable[[int], Any] | None = None,
) -> dict[str, Any]:
    """Everything that the page shows of one example, as plain lists.

    `rolled_in[moment][roll_in]` has the prefix and, for each cell, the logs of the model's probabilities of the
    `tokens` that are shown; `views[moment][roll_in][roll_out]` is a number in `searches`, each with
    `costs[cell][place]` and `tails[cell][place]`, the tokens that the roll-out wrote after the one at that place.
    Equal searches are kept once. A small vocabulary is shown in this `order`, as a key for sorting.
    """
    vocab = moments[0].model.vocab
    batch = batch.with_vocab(vocab)
    rolled = [[_roll_in(moment, batch, name, choices, seed) for name in choices.roll_ins] for moment in moments]
    flat = [each for at_once in rolled for each in at_once]
    small = len(vocab.choosable) <= ALL_TOKENS
    tokens = tuple(sorted(vocab.choosable, key=order)) if small else choose_tokens(batch, flat)
    found: list[dict[str, Any]] = []
    numbers: dict[str, int] = {}

    def view(moment: Moment, rolled_in: RolledIn, name: str) -> int:
        draw = rng.generator(seed, "explain", name)  # the same coins at every time
        out = _search(moment, batch, rolled_in, choices, name, tokens, draw)
        if (number := numbers.setdefault(repr(out), len(found))) == len(found):
            found.append(out)
        return number

    return {
        "tokens": list(tokens),
        "hidden_tokens": len(vocab.choosable) - len(tokens),
        "hidden_cells": max(each.hidden for each in flat),
        "rolled_in": [[_plain(each, tokens, vocab) for each in at_once] for at_once in rolled],
        "views": [
            [[view(moment, each, name) for name in choices.roll_outs] for each in at_once]
            for moment, at_once in zip(moments, rolled, strict=True)
        ],
        "searches": found,
    }


def choose_tokens(batch: Batch, rolled: Sequence[RolledIn], most: int = MOST_TOKENS) -> tuple[int, ...]:
    """The tokens of a large vocabulary that matter, in the order of the cells where they first do."""
    choosable = {*batch.vocabulary.choosable}
    first: dict[int, int] = {}
    for cell, token in _by_weight(batch, rolled):
        if token in choosable and (token in first or len(first) < most):
            first[token] = min(cell, first.get(token, cell))
    return tuple(sorted(first, key=lambda token: (first[token], token)))


def _by_weight(batch: Batch, rolled: Sequence[RolledIn]) -> Iterator[tuple[int, int]]:
    """Cells and tokens: the true ones, those of the roll-ins, the model's best, then what training would draw."""
    cells = max(each.cells for each in rolled)
    yield from enumerate(true_tokens(batch, torch.arange(cells)[None])[0].tolist())
    for each in rolled:
        yield from enumerate(each.prefix[0, : each.cells].tolist())
    best = [each.logs.topk(min(TOP, batch.vocabulary.size)).indices.T.tolist() for each in rolled]
    for ranked in zip(*best, strict=True):
        for tokens in ranked:
            yield from enumerate(tokens)
    for each in rolled:
        for cell, drawn in enumerate(each.drawn or ()):
            yield from ((cell, token) for token in drawn)


@torch.no_grad()
def _roll_in(moment: Moment, batch: Batch, name: str, choices: Choices, seed: int) -> RolledIn:
    """Roll in, and look at the model's mind at every cell."""
    model = with_trace(moment.model)
    policy = schedules.at(choices.roll_ins[name], moment.step)
    with evaluating(model):
        memory = model.encode(batch.inputs)
        prefix = policy.roll_in(Encoded(model, memory), batch, rng.generator(seed, "explain", name))
        scores, _ = model.trace(memory, prefix)
        looks = looked_at(moment.model, memory, prefix)
    written = int(valid_cells(prefix, batch).sum())
    cells = min(written, MOST_CELLS)
    drawn = None
    if choices.tokens is not None:
        sampler = schedules.at(choices.tokens, moment.step)
        at = torch.arange(cells, device=prefix.device)[None]
        tokens = sampler(scores[:, :cells], batch, at, rng.generator(seed, "explain", "tokens"))
        drawn = tuple(tuple(dict.fromkeys(each)) for each in tokens[0].tolist())
    logs = forbid(scores[0, :cells].double(), batch.vocabulary).log_softmax(-1).cpu()
    return RolledIn(prefix, cells, written - cells, logs, drawn, None if looks is None else looks[0, :cells].cpu())


def _search(
    moment: Moment,
    batch: Batch,
    rolled_in: RolledIn,
    choices: Choices,
    name: str,
    tokens: tuple[int, ...],
    draw: torch.Generator,
) -> dict[str, Any]:
    """The costs of the tokens at every cell and how their outputs end."""
    result = search(
        moment.model,
        batch,
        roll_in=Given(rolled_in.prefix),
        roll_out=schedules.at(choices.roll_outs[name], moment.step),
        cost=choices.cost,
        tokens=SameTokens(tokens),
        cells=FirstCells(rolled_in.cells),
        rng=draw,
    )
    pad = batch.vocabulary.pad
    tails = [
        [[token for token in output[cell + 1 :] if token != pad] for output in outputs]
        for cell, outputs in enumerate(result.outputs[0].tolist())
    ]
    return {"costs": _rounded(result.costs[0]), "tails": tails}


def _plain(rolled_in: RolledIn, tokens: tuple[int, ...], vocab: Vocabulary) -> dict[str, Any]:
    """A roll-in as plain lists."""
    places = {token: place for place, token in enumerate(tokens)}
    drawn = rolled_in.drawn
    return {
        "prefix": [token for token in rolled_in.prefix[0].tolist() if token != vocab.pad][: rolled_in.cells],
        "logs": _rounded(rolled_in.logs[:, list(tokens)]),
        "drawn": drawn and [sorted(places[token] for token in each if token in places) for each in drawn],
        "looks": None if rolled_in.looks is None else _rounded(rolled_in.looks, 3),
    }


def _rounded(values: Float[Tensor, "C N"], digits: int = 4) -> list[list[float]]:
    return [[round(value, digits) for value in row] for row in values.double().tolist()]
