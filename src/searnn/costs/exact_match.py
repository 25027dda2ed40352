"""Exact match cost: right or wrong as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.costs.common import bound, check_vocab
from searnn.sequences.ends import before_end
from searnn.types import Vocabulary


@dataclass(frozen=True)
class ExactMatch:
    """0 where the output before its end is the target before its end, else 1."""

    vocab: Vocabulary | None = None
    name: ClassVar[str] = "exact"

    def __post_init__(self) -> None:
        check_vocab("ExactMatch", self.vocab)

    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = bound("ExactMatch", self.vocab)
        truth = targets.view(len(targets), *[1] * (outputs.ndim - 2), -1)
        ours, theirs = before_end(outputs, vocab), before_end(truth, vocab)
        wrong = (ours != theirs) | (ours & (outputs != truth))
        return wrong.any(-1).to(torch.get_default_dtype())
