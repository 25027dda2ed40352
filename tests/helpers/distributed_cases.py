"""Small runs that must come out the same however a batch is cut: over ranks, or into shards one after the other.

In double precision, so that what differs differs by rounding alone and no arg-max changes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from training_cases import SETTINGS, lines, make_model, random_searnn, weights

from searnn.algorithms import ActorCritic, Laso, Mixer, Mle, Ocd, Raml, Reinforce, Searnn
from searnn.costs import EditDistance
from searnn.losses import KLLoss, LogLoss
from searnn.policies import Learned, Mixed
from searnn.samplers import TopTokens, UniformCells
from searnn.tasks import Copy
from searnn.training import Outcome, TrainingSettings, fit

# Seven examples: no two parts are of one size. 13 to evaluate on, likewise.
WHOLE = replace(SETTINGS, precision="64-true", batch_size=7, steps=4, eval_every=2, lr=0.3)
GENTLE = replace(WHOLE, lr=0.03)
ADAM = replace(WHOLE, optimizer="adam", lr=0.01, schedule="plateau", plateau_patience=0)
TIES = LogLoss(ties="random")


def uneven_task(seed: int = 1) -> Copy:
    return Copy(symbols=3, length=5, examples=125, seed=seed)


def searnn(**changes: Any) -> Searnn:
    chosen: dict[str, Any] = {"roll_in": Learned(), "roll_out": Mixed(), "cost": EditDistance(), "loss": KLLoss(2.0)}
    return Searnn(**{**chosen, **changes})


class Critic(nn.Module):
    """An algorithm with a parameter of its own and logs, which says nothing of how its loss is made."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(3.0))

    def forward(self, model: Any, batch: Any, generator: torch.Generator) -> Any:
        update = Mle()(model, batch, generator)
        lengths = batch.lengths.double().mean()
        return replace(update, loss=update.loss + (self.value - lengths) ** 2 / 9, logs={"lengths": lengths})


CASES: dict[str, tuple[Any, TrainingSettings]] = {
    "mle": (Mle, WHOLE),
    "mle, cells": (lambda: Mle(normalisation="cell", label_smoothing=0.1), ADAM),
    "mle, sum": (lambda: Mle(normalisation="sum"), replace(WHOLE, lr=0.05, clip=None)),
    "mixed": (searnn, replace(ADAM, beam=3)),
    "mixed, cells": (lambda: searnn(normalisation="cell", cells=UniformCells(2)), WHOLE),
    "mixed, cells, cross-entropy": (
        lambda: searnn(normalisation="cell", cells=UniformCells(2), cross_entropy_weight=0.5, label_smoothing=0.1),
        WHOLE,
    ),
    "mixed by branch, one cell's gradient": (
        lambda: searnn(roll_out=Mixed(per="branch"), classifier="cell", tokens=TopTokens(2), loss=TIES),
        WHOLE,
    ),
    "every randomness": (random_searnn, ADAM),
    "own parameters": (Critic, WHOLE),
    "logs of cells and of examples": (lambda: Reinforce(cost=EditDistance(), normalisation="cell"), GENTLE),
    "logs of a split": (lambda: Mixer(cost=EditDistance(), cross_entropy_cells=2), GENTLE),
    "logs of critics": (lambda: ActorCritic(cost=EditDistance(), critic_width=8, critic_steps=1), GENTLE),
    "logs of beams": (lambda: Laso(train_beam=2), GENTLE),
    "logs of optimal tokens": (Ocd, GENTLE),
    "logs of edits": (lambda: Raml(tau=1.0, normalisation="cell"), WHOLE),
}


def train(name: str, folder: Path, *, resume: bool = False, dropout: float = 0.0, **changes: Any) -> Outcome:
    """One of the cases, with other settings where they are given."""
    algorithm, settings = CASES[name]
    return fit(
        make_model(dropout=dropout), algorithm(), uneven_task(), replace(settings, **changes), folder,
        cost=EditDistance(), resume=resume,
    )  # fmt: skip


@contextmanager
def start_ranks(*program: str, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """torchrun with two ranks of a program; it does not outlive the test."""
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    ranks = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *program],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}, cwd=cwd,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield ranks
    finally:
        if ranks.poll() is None:
            ranks.terminate()
            ranks.communicate(timeout=60)


def assert_same_to_rounding(one: Path, other: Path) -> None:
    """The same weights, optimiser and records, up to what another order of adding makes."""
    for part in ("last", "best"):
        left, right = weights(one / part), weights(other / part)
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert torch.allclose(value, right[name], rtol=1e-6, atol=1e-9), (name, value, right[name])
    records = lines(one), lines(other)
    assert len(records[0]) == len(records[1]) > 0
    for left, right in zip(*records, strict=True):
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert abs(value - right[name]) <= 1e-6 * abs(value) + 1e-7, (name, value, right[name])
