"""Actor-critic training (Bahdanau et al., 2017): a critic that knows the truth says what every token is worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from searnn.algorithms.common import paths
from searnn.algorithms.common.critic import Critic, follow, frozen, prefix_costs
from searnn.algorithms.common.losses import total
from searnn.algorithms.common.paths import Paths
from searnn.algorithms.common.settings import CrossEntropyWeight, Normalisation
from searnn.algorithms.mle import Mle
from searnn.defaults import NEEDS_WARM_UP, Recipe, share_of_steps
from searnn.interfaces import Cost, Stepper
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.models.stepping import unwrapped
from searnn.sequences import forbid
from searnn.settings import Setting, check
from searnn.types import Batch, SearnnError, Update


class ActorCritic(nn.Module):
    """Their Algorithm 1: the actor p is the model, the critic Q predicts the reward that is still to come.

    A delayed actor p' draws the outputs ŷ. The critic learns r_t + Σ_a p'(a) Q'(a) at the next cell, with r_t the cost
    that token ŷ_t saves and Q' a delayed critic; `variance_penalty` keeps the values of tokens that were not drawn near
    one another. The actor's loss is Σ_a p(a) (max Q - Q(a)) at every cell. The delayed networks move towards their
    originals by the share `delay` after each update. The first `critic_steps` updates train the critic alone.

    Deviation: one `delay` for both copies; the paper has one for the actor and one for the critic.
    """

    name: ClassVar[str] = "actor-critic"
    recipe: ClassVar[Recipe] = {"critic_steps": share_of_steps(1 / 20), **NEEDS_WARM_UP}

    def __init__(
        self,
        *,
        cost: Cost,
        critic_width: Annotated[int, Setting("units of the critic", ge=1)] = 128,
        delay: Annotated[float, Setting("share by which delayed copies follow at an update", gt=0, le=1)] = 0.001,
        variance_penalty: Annotated[float, Setting("penalty on the spread of the critic's values", ge=0)] = 0.001,
        critic_steps: Annotated[int, Setting("first updates, of the critic alone", ge=0)] = 1000,
        cross_entropy_weight: CrossEntropyWeight = 0.0,
        normalisation: Normalisation = "batch",
    ) -> None:
        super().__init__()
        check(ActorCritic, locals())
        self.cost, self.critic_width, self.delay, self.variance_penalty = cost, critic_width, delay, variance_penalty
        self.critic_steps, self.cross_entropy_weight = critic_steps, cross_entropy_weight
        self.normalisation: Normalisation = normalisation
        self.critic: Critic | None = None
        self.delayed_critic: Critic
        self.delayed_actor: nn.Module
        self.followed: Tensor  # of the critic, as it was when the delayed copies last moved

    def attach(self, model: nn.Module) -> None:
        """Make the critic for the model's vocabulary, and the delayed copies."""
        first = next(model.parameters())
        self.critic = Critic(model.vocab, self.critic_width).to(first.device, first.dtype)  # type: ignore[arg-type]
        self.delayed_critic, self.delayed_actor = frozen(self.critic), frozen(model)
        self.register_buffer("followed", self.critic.network.project.bias.detach().clone())

    def at(self, step: int) -> Phase:
        """At first the delayed actor takes the weights that a warm-up has left; then the critic alone, then both."""
        return Phase(self, first=step == 0, critic_alone=step < self.critic_steps)

    def forward(
        self,
        model: Stepper,
        batch: Batch,
        rng: torch.Generator,
        first: bool = False,
        critic_alone: bool = False,
    ) -> Update:
        """One loss from one batch; that of the critic and that of the actor share no parameters."""
        critic, delayed_critic, delayed_actor = self._networks()
        self._move(model, first)
        model, drawer = with_trace(model), with_trace(delayed_actor)  # type: ignore[arg-type]
        batch = batch.with_vocab(model.vocab)
        with torch.no_grad(), evaluating(drawer):
            memory = drawer.encode(batch.inputs)
            drawn = paths.rescore(drawer, memory, paths.draw(drawer, memory, batch, rng))
            outputs, counted = drawn.outputs[:, 0], drawn.counted[:, 0]
            costs = prefix_costs(self.cost, outputs, batch, drawn.chosen)  # [B, T+1]
            rewards = costs[:, :-1] - costs[:, 1:]
            expected = (drawn.log_probs[:, 0].exp() * delayed_critic(outputs, batch)).sum(-1) * counted  # [B, T]
            targets = rewards + torch.cat([expected[:, 1:], torch.zeros_like(expected[:, :1])], dim=1)
        values = critic(outputs, batch)
        losses, error = self._critic_losses(values, targets, drawn)
        loss = total(losses, counted, self.normalisation)
        logs = {"cost": costs[:, -1].mean(), "critic_error": paths.mean_over(error, counted)}
        if not critic_alone:
            probs = paths.rescore(model, model.encode(batch.inputs), drawn.outputs).log_probs[:, 0].exp()
            best = forbid(values.detach(), model.vocab).amax(-1, keepdim=True)
            regret = (probs * (best - values.detach())).sum(-1)
            loss = loss + total(regret, counted, self.normalisation)
            logs["regret"] = paths.mean_over(regret, counted)
            if self.cross_entropy_weight:
                loss = loss + self.cross_entropy_weight * Mle(normalisation=self.normalisation)(model, batch, rng).loss
        cells = counted.sum()
        return Update(loss, {"loss": loss.detach(), **logs}, cells, {"critic_error": cells, "regret": cells})

    def _critic_losses(
        self, values: Float[Tensor, "B T V"], targets: Float[Tensor, "B T"], drawn: Paths
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """The squared error of the drawn token's value with the penalty on the spread of all, and the error alone."""
        tokens = drawn.outputs[:, 0].clamp(max=values.shape[-1] - 1).unsqueeze(-1)
        error = (values.gather(-1, tokens).squeeze(-1) - targets).square()
        weights = drawn.log_probs[:, 0] > -torch.inf  # of the tokens that may be chosen
        mean = (values * weights).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
        return error + self.variance_penalty * ((values - mean).square() * weights).sum(-1), error

    @torch.no_grad()
    def _move(self, model: Stepper, first: bool) -> None:
        """Move the delayed copies: `first` all the way, then once after each update.

        A batch may be cut into shards: whether there was an update in between, the critic's weights must tell, and they
        tell it on the device.
        """
        critic, delayed_critic, delayed_actor = self._networks()
        bias = critic.network.project.bias
        updated = (bias != self.followed).any()
        rate = None if first else updated.to(bias.dtype) * self.delay
        follow(delayed_actor, unwrapped(model), rate)  # type: ignore[arg-type]
        follow(delayed_critic, critic, rate)
        self.followed.copy_(bias)

    def _networks(self) -> tuple[Critic, Critic, nn.Module]:
        if self.critic is None:
            raise SearnnError("there is no critic yet: call attach(model) before the optimiser is made")
        return self.critic, self.delayed_critic, self.delayed_actor


@dataclass(frozen=True)
class Phase:
    """Actor-critic training at one time of a run."""

    algorithm: ActorCritic
    first: bool
    critic_alone: bool

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        update: Update = self.algorithm(model, batch, rng, first=self.first, critic_alone=self.critic_alone)
        return update
