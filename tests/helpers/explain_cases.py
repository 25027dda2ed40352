"""Small explanations for the tests of `searnn explain`."""

from __future__ import annotations

from typing import Any

import torch

from searnn import rng
from searnn.costs import EditDistance, Hamming
from searnn.models import EncoderDecoder
from searnn.policies import Learned, Mixed, Reference
from searnn.reports.explain import Choices, Moment, Start, describe
from searnn.samplers import TopTokens
from searnn.tasks import Copy
from searnn.types import Batch, Inputs, Vocabulary

POLICIES = ("reference", "learned")


def choices_for(vocab: Vocabulary) -> Choices:
    """The plain policies with the cost that suits the outputs."""
    policies = {"reference": Reference(), "learned": Learned()}
    return Choices(policies, policies, EditDistance() if vocab.eos is not None else Hamming())


def copied(*, moments: int = 3, stands_in: bool = False) -> dict[str, Any]:
    """A string of the copy task under models with attention that differ in time; training draws three candidates."""
    task = Copy(symbols=5, length=6, examples=20)
    models = []
    for number in range(moments):
        init = rng.generator(moments - number - 1, "init")
        model = EncoderDecoder(task.vocab, source_size=5, width=8, attention="additive", rng=init)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(2.0)
        models.append(Moment(f"step {100 * number}", 100 * number, model.eval()))
    values, targets = torch.tensor([[3, 1, 4, 1]]), torch.tensor([[3, 1, 4, 1, 5, 6, 6, 6]])
    batch = Batch(Inputs(values, torch.tensor([4])), targets, torch.tensor([8]), vocab=task.vocab)
    policies = {"reference": Reference(), "learned": Learned()}
    mixed = {**policies, "mixed": Mixed(Reference(), 0.5, per="cell")}
    choices = Choices(policies, mixed, EditDistance(), TopTokens(3))
    start = Start("learned", "learned", "kl", 30.0)
    title = "</script><b>runs</b>"  # whatever a folder is called
    return describe(
        task, models, batch, choices, start, title=title, stands_in=stands_in, notes=["A note."], at=moments - 1
    )
