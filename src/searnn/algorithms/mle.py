"""Maximum likelihood with teacher forcing, plain or with label smoothing."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from searnn.algorithms.totals import Normalisation, check_normalisation, total
from searnn.interfaces import Stepper
from searnn.models import with_trace
from searnn.sequences import forbid, seal, valid_cells
from searnn.types import Batch, SearnnError, Update


@dataclass(frozen=True)
class Mle:
    """-log p(y | x), summed over the cells of the truth, its EOS included (the paper's section 2).

    With `label_smoothing` ε the target of each cell is (1 - ε) on the true token and ε spread over all tokens. PAD and
    BOS, which are never chosen, have no share in the probabilities even where the model scores them.
    """

    label_smoothing: float = 0.0
    normalisation: Normalisation = "batch"

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        if not 0 <= self.label_smoothing < 1:
            raise SearnnError(f"label smoothing is {self.label_smoothing}, it must lie in [0, 1)")

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch, in one teacher-forced pass."""
        model = with_trace(model)
        vocab = model.vocab
        batch = batch.with_vocab(vocab)
        truth = seal(batch.targets, batch.lengths, vocab)
        scores, _ = model.trace(model.encode(batch.inputs), truth)
        counted = valid_cells(truth, batch)
        log_probs = forbid(scores, vocab).log_softmax(-1)
        targets = torch.where(counted, truth, vocab.choosable[0])
        losses = functional.nll_loss(log_probs.flatten(0, 1), targets.flatten(), reduction="none").view_as(truth)
        if self.label_smoothing:
            choosable = len(vocab.choosable)
            everywhere = -log_probs.masked_fill(log_probs == -torch.inf, 0).sum(-1) / choosable
            losses = (1 - self.label_smoothing) * losses + self.label_smoothing * everywhere
        loss = total(losses, counted, self.normalisation)
        return Update(loss, {"loss": loss.detach()}, cells=counted.sum())
