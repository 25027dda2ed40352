"""First weights, drawn from a generator of one's own."""

from __future__ import annotations

import math

import torch
from torch import nn


def initialise(model: nn.Module, rng: torch.Generator) -> None:
    """Xavier-uniform linear layers with zero biases, Kaiming-uniform embeddings, recurrent layers within ±1/√D.

    Linear layers and embeddings as in the authors' release; the recurrent layers as the library does.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, generator=rng)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.kaiming_uniform_(module.weight, generator=rng)
        elif isinstance(module, nn.RNNBase):
            bound = 1 / math.sqrt(module.hidden_size)
            for parameter in module.parameters(recurse=False):
                nn.init.uniform_(parameter, -bound, bound, generator=rng)
