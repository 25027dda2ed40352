"""Scheduled sampling (Bengio et al., 2015); for Transformers in two passes (Mihaylova and Martins, 2019)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from searnn.algorithms.common.imitation import learn_tokens
from searnn.algorithms.common.settings import Normalisation
from searnn.decoding import Choose, Greedy, Standing, at_rows, roll_from_start, sampling
from searnn.defaults import Recipe, share_of_steps
from searnn.interfaces import Model, Stepper
from searnn.models import Stepped, Transformer, with_trace
from searnn.models.modes import evaluating
from searnn.models.stepping import unwrapped
from searnn.rng import spawn, uniform
from searnn.schedules import InverseSigmoid, Schedule
from searnn.sequences import reference_tokens, seal, valid_cells
from searnn.settings import Setting, checked
from searnn.types import Batch, SearnnError, Update

DEFAULT = InverseSigmoid(steps=10_000, start=0.0, end=0.5)

SamplingProbability = Annotated[
    float | Tensor | Schedule,
    Setting("chance that the model's own token is fed, not the true one", ge=0, le=1, schedule="linear:1:0:10000"),
]


@checked
class ScheduledSampling:
    """MLE, but each token that is fed is the model's own with `sampling_probability`, else the truth's.

    A coin is tossed for every token. The targets are those of MLE, at the cells of the truth, whatever was fed before;
    an EOS of the model's own is fed like any other token. `own_tokens` says how the model makes its tokens: "greedy"
    takes the best, "sampled" draws from its probabilities.

    A recurrent model writes its tokens one after the other, each after the mixed tokens before it. A Transformer does
    it in two passes: one over the truth gives its tokens at all cells at once, the second learns from the mixture.
    """

    name: ClassVar[str] = "scheduled-sampling"
    recipe: ClassVar[Recipe] = {"sampling_probability": share_of_steps(1 / 2, "inverse-sigmoid:{}:0:0.5")}
    may_move: ClassVar[tuple[str, ...]] = ("sampling_probability",)
    sampling_probability: SamplingProbability = DEFAULT
    own_tokens: Annotated[Literal["greedy", "sampled"], Setting("how the model's own tokens are made")] = "greedy"
    normalisation: Normalisation = "batch"

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: mix without gradient, then learn the truth after the mixture."""
        model = with_trace(model)
        batch = batch.with_vocab(model.vocab)
        truth = seal(batch.targets, batch.lengths, model.vocab)
        counted = valid_cells(truth, batch)
        with torch.no_grad(), evaluating(model):
            fed = torch.where(counted, self._mix(model, batch, truth, rng), model.vocab.pad)
        return learn_tokens(model, batch, fed, truth, counted, self.normalisation)

    def _mix(self, model: Model, batch: Batch, truth: Int[Tensor, "B T"], rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The tokens that are fed: the truth's, and by the coins the model's."""
        probability = self.sampling_probability
        if isinstance(probability, Schedule):
            raise SearnnError("sampling_probability is a schedule: take its value with searnn.schedules.at(..., step)")
        if not isinstance(probability, Tensor) and probability == 0:
            return truth  # MLE, at its price
        for_coins, for_tokens = spawn(rng, 2)
        rows = truth.unsqueeze(1)
        coins = uniform(rows.shape, for_coins, truth.device) < probability
        own: Choose = Greedy(model.vocab)
        if self.own_tokens == "sampled":
            own = sampling(model.vocab, uniform(rows.shape, for_tokens, truth.device), temperature=1.0)
        true = reference_tokens(batch).unsqueeze(1)

        def choose(scores: Tensor, standing: Standing) -> Tensor:
            return torch.where(at_rows(coins, standing), own(scores, standing), at_rows(true, standing))

        memory = model.encode(batch.inputs)
        if not isinstance(unwrapped(model), Transformer):
            return roll_from_start(Endless(model), memory, batch, choose)
        cells = torch.arange(truth.shape[1], device=truth.device).expand_as(truth)
        return choose(model.trace(memory, truth)[0], Standing(cells, rows))


class Endless(Stepped):
    """A model whose EOS is a token like any other, so that its rows go on to the last cell."""

    def __init__(self, model: Stepper) -> None:
        super().__init__(model)
        self.vocab = replace(model.vocab, eos=None)
