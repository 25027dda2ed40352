"""Self-critical training (Rennie et al., 2017): REINFORCE against the model's own decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch

from searnn.algorithms.common import paths
from searnn.algorithms.common.settings import Normalisation, Samples
from searnn.defaults import NEEDS_WARM_UP, Recipe
from searnn.interfaces import Cost, Encoded, Stepper
from searnn.models.modes import evaluating
from searnn.policies import Learned
from searnn.settings import Setting, check
from searnn.types import Batch, SearnnError, Update


@dataclass(frozen=True, kw_only=True)
class SelfCritical:
    """Σ_t (c(ŷ) - b) log p(ŷ_t) for each of `samples` outputs ŷ.

    The `baseline` b is "greedy", the cost of the model's greedy output, or "leave-one-out", the mean cost of the other
    samples (Kool et al., 2019), which takes no decoding of its own and at least two samples.
    """

    name: ClassVar[str] = "self-critical"
    recipe: ClassVar[Recipe] = NEEDS_WARM_UP
    cost: Cost
    samples: Samples = 1
    baseline: Annotated[Literal["greedy", "leave-one-out"], Setting("what costs are compared with")] = "greedy"
    normalisation: Normalisation = "batch"

    def __post_init__(self) -> None:
        check(self)
        if self.baseline == "leave-one-out" and self.samples < 2:
            raise SearnnError("a leave-one-out baseline needs other samples: samples is 1, give at least 2, such as 5")

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: outputs better than the baseline become likelier, worse ones less so."""
        model, batch, memory, fixed = paths.read(model, batch)
        outputs = paths.draw(model, fixed, batch, rng, self.samples)
        found = paths.rescore(model, memory, outputs)
        costs = paths.costs_of(self.cost, outputs, batch, found.chosen)
        if self.baseline == "greedy":
            with torch.no_grad(), evaluating(model):
                greedy = Learned().roll_in(Encoded(model, fixed), batch, rng)
            baseline = paths.costs_of(self.cost, greedy, batch, found.chosen).unsqueeze(1)
        else:
            baseline = (costs.sum(1, keepdim=True) - costs) / (self.samples - 1)
        losses = (costs - baseline).unsqueeze(-1) * found.chosen
        loss = paths.total_of_paths(losses, found.counted, self.normalisation)
        logs = {"loss": loss.detach(), "cost": costs.mean(), "baseline": baseline.mean()}
        return Update(loss, logs, cells=found.counted.sum())
