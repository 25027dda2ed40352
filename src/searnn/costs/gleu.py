"""GLEU cost: one minus the share of n-grams that output and target have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.costs.common import bound, check_vocab
from searnn.engine import replaceable
from searnn.sequences.ends import output_lengths
from searnn.sequences.ngrams import Order, count_matches, gleu
from searnn.settings import check
from searnn.types import Vocabulary


@dataclass(frozen=True)
class Gleu:
    """One minus GLEU (Wu et al. 2016): shared n-grams of orders 1 to `order`, per n-gram of the longer sequence.

    The cost is 0 where output and target are both empty.
    """

    vocab: Vocabulary | None = None
    order: Order = 4
    name: ClassVar[str] = "gleu"

    def __post_init__(self) -> None:
        check_vocab("Gleu", self.vocab)
        check(self)

    @replaceable
    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = bound("Gleu", self.vocab)
        rows = outputs.reshape(len(outputs), -1, outputs.shape[-1])
        matches = count_matches(rows, targets, vocab, self.order)
        lengths, references = output_lengths(rows, vocab), output_lengths(targets, vocab).unsqueeze(1)
        return (1 - gleu(matches, lengths, references, torch.get_default_dtype())).view(outputs.shape[:-1])
