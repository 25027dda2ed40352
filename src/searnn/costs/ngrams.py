"""Costs of n-grams: one minus the smoothed BLEU, or the GLEU, of each output by itself."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.costs.common import TokenCost
from searnn.engine import replaceable
from searnn.sequences.ends import output_lengths
from searnn.sequences.ngrams import Definition, Order, bleu, count_matches, gleu, never_matching
from searnn.settings import checked


@checked
class SentenceBleu(TokenCost):
    """One minus smoothed sentence BLEU: the geometric mean of n-gram precisions, orders 1 to `order`, and brevity.

    With m matches among c n-grams of an order, a precision is, by `definition`:

    - "bahdanau": (m + 1) / (c + 1), and n-grams with the token `unknown` never match (Bahdanau et al. 2017, which the
      paper names);
    - "leblond": (m + 1) / (c + 1), and the score is 0 where not one token matches (the authors' release);
    - "lin-och": m / c for single tokens, (m + 1) / (c + 1) for the others (Lin and Och 2004). As in sacrebleu with
      add-k smoothing, an order that the output is too short for counts as 1; NLTK's method2 counts it as 1/2.

    An output of h tokens for a longer truth of r is punished by exp(1 - r / h), an empty output scores 0, and an empty
    truth counts as one token long. Only "bahdanau" reads `unknown`: elsewhere the unknown word is a word like others.
    """

    definition: Definition = "bahdanau"
    order: Order = 4
    unknown: int | None = None
    name: ClassVar[str] = "bleu"

    @replaceable
    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = self.bound
        never = never_matching(self.definition, self.unknown)
        rows = outputs.reshape(len(outputs), -1, outputs.shape[-1])
        matches = count_matches(rows, targets, vocab, self.order, never)
        lengths, references = output_lengths(rows, vocab), output_lengths(targets, vocab).unsqueeze(1)
        scores = bleu(matches, lengths, references, self.definition, torch.get_default_dtype())
        return (1 - scores).view(outputs.shape[:-1])


@checked
class Gleu(TokenCost):
    """One minus GLEU (Wu et al. 2016): shared n-grams of orders 1 to `order`, per n-gram of the longer sequence.

    The cost is 0 where output and target are both empty.
    """

    order: Order = 4
    name: ClassVar[str] = "gleu"

    @replaceable
    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = self.bound
        rows = outputs.reshape(len(outputs), -1, outputs.shape[-1])
        matches = count_matches(rows, targets, vocab, self.order)
        lengths, references = output_lengths(rows, vocab), output_lengths(targets, vocab).unsqueeze(1)
        return (1 - gleu(matches, lengths, references, torch.get_default_dtype())).view(outputs.shape[:-1])
