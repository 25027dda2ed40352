"""DAgger, data set aggregation (Ross et al., 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from searnn.algorithms.common.imitation import learn_tokens, oracle_tokens
from searnn.algorithms.common.rounds import Aggregating, Aggregation
from searnn.algorithms.common.settings import Buffer, Normalisation, ReferenceDecay, RoundSteps
from searnn.defaults import Recipe, share_of_steps
from searnn.interfaces import Encoded, Oracle, RollIn, Stepper
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.oracles import CopyTarget
from searnn.searching import as_roll_in
from searnn.sequences import valid_cells
from searnn.settings import check
from searnn.types import Batch, Update


class Dagger(Aggregating):
    """Visit cells by a mixture of the oracle and the model, ask the oracle what to write there, and learn that.

    Rounds have `round_steps` updates. Round i rolls in with the oracle at each token with probability
    `reference_decay`^i, else with the model as it stood when the round began; what the last `buffer` rounds visit is
    learned in turns (see `searnn.algorithms.common.rounds`).
    """

    name: ClassVar[str] = "dagger"
    recipe: ClassVar[Recipe] = {"round_steps": share_of_steps(1 / 40)}

    def __init__(
        self,
        *,
        oracle: Oracle = CopyTarget(),  # noqa: B008
        round_steps: RoundSteps = 500,
        buffer: Buffer = 5,
        reference_decay: ReferenceDecay = 0.5,
        normalisation: Normalisation = "batch",
    ) -> None:
        check(Dagger, locals())
        super().__init__(oracle, normalisation, Aggregation(round_steps, buffer, reference_decay))

    def learn(self, roll_in: RollIn) -> Imitate:
        """Imitate the oracle there."""
        return Imitate(roll_in, self.oracle, self.normalisation)


@dataclass(frozen=True)
class Imitate:
    """-log p of the oracle's token at every cell that the roll-in visits."""

    roll_in: RollIn
    oracle: Oracle
    normalisation: Normalisation = "batch"

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch."""
        model = with_trace(model)
        batch = batch.with_vocab(model.vocab)
        with torch.no_grad(), evaluating(model):
            # The truth and a copy of the model do not read what the model that learns knows of the input.
            prefix = as_roll_in(self.roll_in).roll_in(Encoded(model, None), batch, rng)
            targets = oracle_tokens(self.oracle, prefix, batch)
        return learn_tokens(model, batch, prefix, targets, valid_cells(prefix, batch), self.normalisation)
