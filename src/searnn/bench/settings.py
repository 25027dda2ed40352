"""The settings that are timed: the sizes of the paper's three tasks, with random data or the real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from searnn import rng
from searnn.costs import EditDistance, Hamming, SentenceBleu
from searnn.data import store
from searnn.interfaces import Oracle, Task
from searnn.losses import KLLoss, LogLoss
from searnn.models import EncoderDecoder
from searnn.oracles import BestSuffix, CopyTarget
from searnn.tasks import Ocr, Spelling, Translation
from searnn.types import Batch, Inputs, Vocabulary

NEVER = -30.0  # added to the score of EOS: an untrained model would end at once or not at all, by chance


@dataclass(frozen=True)
class Setting:
    """The sizes of a model and its batches, and what the search on them costs and learns by.

    `choices` are the numbers of candidate tokens that are timed, None is all of them. Lengths are drawn from `shortest`
    to `cells`; without `shortest` they are all `cells`.
    """

    name: str
    vocab: Vocabulary
    width: int
    batch_size: int
    cells: int
    cost: type[EditDistance] | type[Hamming] | type[SentenceBleu]
    loss: KLLoss | LogLoss
    choices: tuple[int | None, ...]
    rounds: int  # timed steps of each method on a CPU
    oracle: Oracle = field(default_factory=CopyTarget)
    features: int | None = None
    source_size: int | None = None
    shortest: int | None = None
    attention: Literal["none", "additive", "aligned"] = "none"
    bidirectional: bool = False
    real: Callable[[], tuple[str, Task]] | None = None  # the name of its data, and the task
    data: str = "random"


def _translation() -> tuple[str, Task]:
    """The paper's corpus where it is, else the one that can be fetched."""
    corpus: Literal["iwslt14", "multi30k"] = "iwslt14" if store.find("iwslt14") else "multi30k"
    return corpus, Translation(corpus)


OCR = Setting(
    "ocr", Vocabulary(26, 26, 27), width=128, batch_size=64, cells=14, shortest=3, features=128,
    cost=Hamming, loss=KLLoss(3.0), choices=(None, 5), rounds=40, real=lambda: ("ocr", Ocr()),
)  # fmt: skip
SPELLING = Setting(
    "spelling", Vocabulary(43, 43, 44, 42), width=100, batch_size=128, cells=10, source_size=42,
    attention="additive", bidirectional=True, cost=EditDistance, loss=LogLoss(), choices=(None, 5), rounds=20,
    real=lambda: ("spelling" if store.find("spelling") else "asv", Spelling()),
)  # fmt: skip
NMT = Setting(
    "nmt", Vocabulary(22_822, 22_822, 22_823, 22_821), width=256, batch_size=64, cells=25, source_size=32_008,
    attention="additive", bidirectional=True, cost=SentenceBleu, loss=KLLoss(200.0), oracle=BestSuffix(),
    choices=(25,), rounds=3, real=_translation,
)  # fmt: skip
SETTINGS = {setting.name: setting for setting in (OCR, SPELLING, NMT)}
ON_A_GPU = {"ocr": replace(OCR, cells=15, shortest=None)}  # one length, as it was measured there before


def on_device(name: str, device: torch.device) -> Setting:
    """The setting of this name as it is timed on a kind of device."""
    setting = SETTINGS[name]
    return setting if device.type == "cpu" else ON_A_GPU.get(name, setting)


def make_model(setting: Setting) -> EncoderDecoder:
    """The setting's model with its first weights; on random data it never ends an output before the truth does.

    So every row takes as many cells as those of a trained model would, whatever the first weights are.
    """
    model = EncoderDecoder(
        setting.vocab, features=setting.features, source_size=setting.source_size, width=setting.width,
        attention=setting.attention, bidirectional=setting.bidirectional, rng=rng.generator(0, "init"),
    )  # fmt: skip
    if setting.vocab.eos is not None and setting.data == "random":
        with torch.no_grad():
            model.project.bias[setting.vocab.eos] += NEVER
    return model


def random_batches(setting: Setting, count: int) -> list[Batch]:
    """Batches of random sources and targets; every target has the length of its source, EOS included."""
    draw, vocab = rng.generator(0, "bench", setting.name), setting.vocab
    eos = -1 if vocab.eos is None else vocab.eos
    words = torch.tensor([token for token in vocab.choosable if token != eos])
    batches = []
    for number in range(count):
        examples, shortest = setting.batch_size, setting.shortest or setting.cells
        lengths = torch.randint(shortest, setting.cells + 1, (examples,), generator=draw)
        shape = (examples, int(lengths.max()))
        if setting.features is not None:
            values = (torch.rand(*shape, setting.features, generator=draw) < 0.2).float()
        else:
            values = torch.randint(setting.source_size or 1, shape, generator=draw)
        targets = words[torch.randint(len(words), shape, generator=draw)]
        left = lengths.unsqueeze(1) - torch.arange(shape[1])
        if vocab.eos is not None:
            targets = targets.masked_fill(left == 1, vocab.eos)
        ids = tuple(range(number * examples, (number + 1) * examples))
        targets = targets.masked_fill(left < 1, vocab.pad)
        batches.append(Batch(Inputs(values, lengths), targets, lengths, ids, vocab=vocab))
    return batches


def real_data(setting: Setting) -> tuple[Setting, Callable[[int], Batch]]:
    """The setting with the sizes of its real data, and that data's training batches by number."""
    assert setting.real is not None
    name, task = setting.real()
    sizes: dict[str, Any] = {"vocab": task.vocab, "features": task.features, "source_size": task.source_size}
    return replace(setting, **sizes, data=name), task.train(setting.batch_size, seed=0).batch


def sizes_of(setting: Setting, batches: Sequence[Batch]) -> dict[str, Any]:
    """What a report says of a setting."""
    return {
        "batch_size": len(batches[0].targets),
        "vocabulary": setting.vocab.size,
        "source_vocabulary": setting.source_size,
        "features": setting.features,
        "width": setting.width,
        "attention": setting.attention,
        "bidirectional": setting.bidirectional,
        "cells": [min(min(batch.limits()) for batch in batches), max(max(batch.limits()) for batch in batches)],
        "source": max(batch.inputs.values.shape[1] for batch in batches),
        "cost": setting.cost.name,
        "loss": setting.loss.name,
    }
