"""Maximum likelihood with teacher forcing, plain or with label smoothing."""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from searnn.algorithms.common.losses import total
from searnn.algorithms.common.settings import LabelSmoothing, Normalisation
from searnn.engine import span
from searnn.interfaces import Stepper
from searnn.models import with_trace
from searnn.sequences import forbid, seal, valid_cells
from searnn.settings import checked
from searnn.types import Batch, Update, Vocabulary


@checked
class Mle:
    """-log p(y | x), summed over the cells of the truth, its EOS included (the paper's section 2).

    With `label_smoothing` ε the target of each cell is (1 - ε) on the true token and ε spread over all tokens. PAD and
    BOS, which are never chosen, have no share in the probabilities even where the model scores them.
    """

    name: ClassVar[str] = "mle"
    label_smoothing: LabelSmoothing = 0.0
    normalisation: Normalisation = "batch"

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch, in one teacher-forced pass."""
        model = with_trace(model)
        vocab = model.vocab
        batch = batch.with_vocab(vocab)
        truth = seal(batch.targets, batch.lengths, vocab)
        with span("encode"):
            memory = model.encode(batch.inputs)
        with span("trace"):
            scores, _ = model.trace(memory, truth)
        with span("loss"):
            counted = valid_cells(truth, batch)
            losses = cross_entropy(scores, truth, counted, vocab, self.label_smoothing)
            loss = total(losses, counted, self.normalisation)
        return Update(loss, {"loss": loss.detach()}, cells=counted.sum())


def cross_entropy(
    scores: Float[Tensor, "B T V"],
    targets: Int[Tensor, "B T"],
    counted: Bool[Tensor, "B T"],
    vocab: Vocabulary,
    smoothing: float = 0.0,
) -> Float[Tensor, "B T"]:
    """-log p of the target at each counted cell, smoothed as in `Mle`; some number or other at the other cells."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # a sum over many tokens wants it
    log_probs = forbid(scores, vocab).log_softmax(-1)
    aims = torch.where(counted, targets, vocab.choosable[0])
    losses = functional.nll_loss(log_probs.flatten(0, 1), aims.flatten(), reduction="none").view_as(targets)
    if not smoothing:
        return losses
    everywhere = -log_probs.masked_fill(log_probs == -torch.inf, 0).sum(-1) / len(vocab.choosable)
    return (1 - smoothing) * losses + smoothing * everywhere
