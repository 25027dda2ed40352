"""SEARN (Daumé et al., 2009), the paper's Algorithm 2."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from torch import nn

from searnn.algorithms.common.rounds import Round, Snapshots
from searnn.algorithms.common.settings import DefaultCost, Normalisation, RoundSteps, Softmax
from searnn.algorithms.searnn import searnn_with
from searnn.defaults import Recipe, share_of_steps
from searnn.interfaces import CellSampler, Cost, Loss, Oracle, Stepper, TokenSampler
from searnn.oracles import CopyTarget
from searnn.policies import Reference
from searnn.policies.copies import Interpolated
from searnn.samplers import AllCells, AllTokens
from searnn.settings import Setting, check
from searnn.types import Batch, Update


class Searn(nn.Module):
    """Roll in and out with one fixed policy for a whole round, train a classifier on the costs, mix it into the policy.

    The policy begins as the reference; after each round h becomes beta h' + (1 - beta) h, drawn for every token, where
    h' is the model as the round left it. A round has `round_steps` updates, the last of the `rounds` all that are left.

    Deviation: the classifier goes on from the weights of the round before, and what is evaluated is the last one alone
    and not the mixture, whose reference needs the truth. Roll-outs follow the policy of the round, as in the original
    SEARN; the paper's Algorithm 2 applies an expert there.
    """

    name: ClassVar[str] = "searn"
    recipe: ClassVar[Recipe] = {"round_steps": share_of_steps(1 / 20)}

    def __init__(
        self,
        *,
        cost: Cost,
        loss: Loss,
        oracle: Oracle = CopyTarget(),  # noqa: B008
        tokens: TokenSampler = AllTokens(),  # noqa: B008
        cells: CellSampler = AllCells(),  # noqa: B008
        beta: Annotated[float, Setting("share of a round's classifier in the policy", ge=0, le=1)] = 0.5,
        rounds: Annotated[int, Setting("number of rounds; the last has all updates that are left", ge=1)] = 5,
        round_steps: RoundSteps = 1000,
        normalisation: Normalisation = "batch",
        softmax: Softmax = "candidates",
        default_cost: DefaultCost = None,
    ) -> None:
        super().__init__()
        check(Searn, locals())
        self.cost, self.loss, self.oracle, self.tokens, self.cells = cost, loss, oracle, tokens, cells
        self.softmax, self.default_cost = softmax, default_cost
        self.beta, self.rounds, self.round_steps, self.normalisation = beta, rounds, round_steps, normalisation
        self.snapshots = Snapshots(rounds - 1)  # what the last round learns no round uses

    def attach(self, model: nn.Module) -> None:
        """Make room for the classifiers of the rounds."""
        self.snapshots.attach(model)

    def at(self, step: int) -> Round:
        """What this update does; the first of a round notes what the round before has learned."""
        number = min(step // self.round_steps, self.rounds - 1)
        policy = self.policy(number)
        begins = number > 0 and step == number * self.round_steps
        return Round(searnn_with(self, policy, policy), self.snapshots, number - 1 if begins else None)

    def policy(self, number: int) -> Interpolated | Reference:
        """The policy h of round `number`, counted from 0: the reference, and the classifiers of the rounds before."""
        shares = {slot: self.beta * (1 - self.beta) ** (number - 1 - slot) for slot in range(number)}
        used = {slot: share for slot, share in shares.items() if share > 0}
        if not used:
            return Reference(self.oracle)
        models = tuple(self.snapshots.of(slot) for slot in used)
        return Interpolated(self.oracle, (1 - self.beta) ** number, models, tuple(used.values()))

    def forward(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """The first update."""
        return self.at(0)(model, batch, rng)
