"""REINFORCE with a learned baseline, in the form of Ranzato et al. (2016)."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from searnn.algorithms.common import paths
from searnn.algorithms.common.paths import Paths
from searnn.algorithms.common.settings import EntropyBonus, Normalisation, Samples
from searnn.defaults import NEEDS_WARM_UP, Recipe
from searnn.interfaces import Cost, Stepper
from searnn.settings import Setting, check
from searnn.types import Batch, SearnnError, Update

OVER_CELLS = ("entropy", "baseline_error")  # logs that are means over cells
Baseline = Annotated[Literal["learned", "none"], Setting("what costs are compared with")]


class Reinforce(nn.Module):
    """Σ_t (c(ŷ) - b_t) log p(ŷ_t), whose gradient is on average that of the expected cost of a sampled output ŷ.

    The `baseline` b_t is "learned": a linear predictor of the final cost from the decoder's scores at each cell, which
    sends no gradient into the network; or "none". `entropy_bonus` rewards each cell's entropy.
    """

    name: ClassVar[str] = "reinforce"
    recipe: ClassVar[Recipe] = NEEDS_WARM_UP

    def __init__(
        self,
        *,
        cost: Cost,
        samples: Samples = 1,
        baseline: Baseline = "learned",
        entropy_bonus: EntropyBonus = 0.0,
        normalisation: Normalisation = "batch",
    ) -> None:
        super().__init__()
        check(Reinforce, locals())
        self.cost, self.samples, self.baseline = cost, samples, baseline
        self.entropy_bonus, self.normalisation = entropy_bonus, normalisation
        self.predictor: Predictor | None = None

    def attach(self, model: nn.Module) -> None:
        """Make the baseline for the model's vocabulary."""
        if self.baseline == "learned":
            first = next(model.parameters())
            self.predictor = Predictor(model.vocab.size).to(first.device, first.dtype)  # type: ignore[arg-type]

    def forward(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: draw outputs, cost them, push each by how far it is from what was expected."""
        model, batch, memory, fixed = paths.read(model, batch)
        found = paths.rescore(model, memory, paths.draw(model, fixed, batch, rng, self.samples))
        losses, logs = self.losses(found, paths.costs_of(self.cost, found.outputs, batch, found.chosen))
        loss = paths.total_of_paths(losses, found.counted, self.normalisation)
        cells = found.counted.sum()
        return Update(loss, {"loss": loss.detach(), **logs}, cells, dict.fromkeys(OVER_CELLS, cells))

    def losses(self, found: Paths, costs: Float[Tensor, "B R"]) -> tuple[Float[Tensor, "B R T"], dict[str, Tensor]]:
        """The loss of every cell, that of the baseline's predictor included, and what is logged."""
        expected = self._expected(found)
        error = costs.unsqueeze(-1) - expected
        losses = error.detach() * found.chosen
        if self.entropy_bonus:
            losses = losses - self.entropy_bonus * paths.entropies(found.log_probs)
        if self.predictor is not None:
            # A mean over cells whatever the normalisation: a sum over many would be too steep for plain SGD.
            cells = 1 if self.normalisation == "cell" else found.counted.sum(-1, keepdim=True).clamp(min=1)
            losses = losses + error.square() / (2 * cells)
        logs = {
            "cost": costs.mean(),
            "entropy": paths.mean_over(paths.entropies(found.log_probs.detach()), found.counted),
            "baseline_error": paths.mean_over(error.square(), found.counted),
        }
        return losses, logs

    def _expected(self, found: Paths) -> Float[Tensor, "B R T"]:
        if self.baseline == "none":
            return torch.zeros_like(found.chosen)
        if self.predictor is None:
            raise SearnnError("the learned baseline has no weights: call attach(model) before the optimiser is made")
        expected: Tensor = self.predictor(found.scores)
        return expected


class Predictor(nn.Module):
    """The cost expected at each cell: linear in the scores, centred and of length 1, with weights that start at 0.

    Deviation: Ranzato et al. read the hidden state, with weights of its own for each cell. Any model has scores, which
    are linear in its last layer; their scale is taken out so that one learning rate serves both.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, 1)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, scores: Float[Tensor, "B R T V"]) -> Float[Tensor, "B R T"]:
        """No gradient goes into the scores."""
        features = functional.layer_norm(scores.detach(), scores.shape[-1:]) / math.sqrt(scores.shape[-1])
        return self.linear(features).squeeze(-1)  # type: ignore[no-any-return]
