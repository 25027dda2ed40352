"""What the tests of the imitation family share: every member, value and gradient, and a plain log-softmax."""

import math

import torch
from cases import rng

from searnn import schedules
from searnn.algorithms.aggrevate import Aggrevate
from searnn.algorithms.aggrevated import Aggrevated
from searnn.algorithms.bandit_lols import BanditLols
from searnn.algorithms.dagger import Dagger
from searnn.algorithms.lols import Lols
from searnn.algorithms.scheduled_sampling import ScheduledSampling
from searnn.algorithms.searn import Searn
from searnn.costs import EditDistance
from searnn.losses import KLLoss

close = torch.testing.assert_close

# Each with short rounds, so that a few updates go through several.
FAMILY = {
    "scheduled-sampling": lambda **more: ScheduledSampling(0.5, own_tokens="sampled", **more),
    "searn": lambda **more: Searn(cost=EditDistance(), loss=KLLoss(2.0), rounds=3, round_steps=2, **more),
    "lols": lambda **more: Lols(EditDistance(), KLLoss(2.0), **more),
    "bandit-lols": lambda **more: BanditLols(EditDistance(), **more),
    "dagger": lambda **more: Dagger(round_steps=3, buffer=2, **more),
    "aggrevate": lambda **more: Aggrevate(cost=EditDistance(), loss=KLLoss(2.0), round_steps=3, buffer=2, **more),
    "aggrevated": lambda **more: Aggrevated(EditDistance(), **more),
}


def attached(algorithm, model):
    """The algorithm, shown the model where it wants to see it."""
    if hasattr(algorithm, "attach"):
        algorithm.attach(model)
    return algorithm


def value_and_gradient(algorithm, model, batch, seed=0, step=0):
    """The loss of update `step` and all its gradients."""
    model.zero_grad()
    loss = schedules.at(algorithm, step)(model, batch, rng(seed)).loss
    loss.backward()
    grads = [p.grad.flatten() if p.grad is not None else torch.zeros_like(p).flatten() for p in model.parameters()]
    return loss.detach(), torch.cat(grads)


def log_prob(scores, token):
    """The log-probability of a token, in plain Python."""
    return scores[token] - math.log(sum(math.exp(score) for score in scores.values()))
