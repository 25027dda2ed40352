"""Settings that several algorithms take."""

from __future__ import annotations

from typing import Annotated, Literal

from searnn.schedules import Schedule
from searnn.settings import Setting

Normalisation = Annotated[
    Literal["batch", "cell", "sum"], Setting("mean over examples, mean over cells or plain sum", section="loss")
]
Softmax = Annotated[
    Literal["candidates", "vocabulary", "default-cost"],
    Setting("what the loss of the candidates is over", section="loss"),
]
DefaultCost = Annotated[
    float | None, Setting("cost of tokens that are no candidates", ge=0, none="dearest", section="loss")
]
RoundSteps = Annotated[int, Setting("updates of a round", ge=1)]
Buffer = Annotated[int, Setting("rounds whose roll-ins are kept", ge=1)]
ReferenceDecay = Annotated[float, Setting("factor of the reference's share per round", ge=0, le=1)]
Samples = Annotated[int, Setting("outputs drawn for an example", ge=1)]
EntropyBonus = Annotated[float, Setting("reward for a cell's entropy", ge=0)]
CrossEntropyWeight = Annotated[float, Setting("weight of the truth's cross-entropy in the loss", ge=0)]
LabelSmoothing = Annotated[float, Setting("share of its target spread over all tokens", ge=0, lt=1)]
TAU = "temperature of the targets; 0: the best alone; auto: raml's usual"
Tau = Annotated[float, Setting(TAU, ge=0)]
TauOrUsual = Annotated[float | None, Setting(TAU, ge=0, none="auto")]
BEAM = "beam width of training"
TrainBeam = Annotated[float | Schedule, Setting(BEAM, ge=1, whole=True, schedule="stepwise:2:1:2000")]
TrainBeamOfTwo = Annotated[float | Schedule, Setting(BEAM, ge=2, whole=True, schedule="stepwise:2:1:2000")]
