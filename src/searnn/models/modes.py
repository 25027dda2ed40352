"""Dropout is off while searching and decoding, whatever mode the model is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from searnn.interfaces import Stepper
from searnn.models.stepping import unwrapped


@contextmanager
def evaluating(model: Stepper) -> Iterator[None]:
    """The model in evaluation mode for a while, where it has modes."""
    inner: object = unwrapped(model)
    if not (isinstance(inner, nn.Module) and inner.training):
        yield
        return
    before = [(module, module.training) for module in inner.modules()]
    inner.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
