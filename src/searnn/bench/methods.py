"""What is compared: maximum likelihood in plain PyTorch and in ours, and SEARNN in its settings; each takes a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from searnn import rng
from searnn.algorithms import Mle, Searnn
from searnn.bench.plain import PlainModel, train_plainly
from searnn.bench.settings import Setting
from searnn.engine import span
from searnn.interfaces import Algorithm, RollOut
from searnn.models import EncoderDecoder
from searnn.policies import Learned, Mixed, Reference
from searnn.samplers import AllTokens, TopTokens
from searnn.training import TrainingSettings
from searnn.training.objective import Objective
from searnn.training.optimisation import make_optimizer, set_rate
from searnn.training.recording import recorder
from searnn.types import Batch

PLAIN, OURS = "plain MLE", "MLE"  # the methods that the others are compared with
CLIP = 5.0
ROLL_OUTS = ("learned", "mixed", "reference")


@dataclass(frozen=True)
class TimedMethod:
    """One way to take a step: loss, backward, clipping and the optimiser.

    `algorithm` is None in plain PyTorch. A `recorded` step is replayed as a CUDA graph, and cannot be taken apart.
    """

    name: str
    step: Callable[[Batch], Tensor]
    about: Mapping[str, Any]
    algorithm: Algorithm | None = None
    recorded: bool = False


@dataclass(frozen=True)
class OwnUpdate:
    """The update of an algorithm of this package, as the training loop takes it.

    The learning rate is 0: the optimiser does all its work, and the weights stay, so that every round times the same.
    """

    model: EncoderDecoder
    algorithm: Algorithm
    optimizer: torch.optim.Optimizer

    def step(self, batch: Batch, generator: torch.Generator | None = None) -> Float[Tensor, ""]:
        """One update."""
        with span("optimiser"):
            self.optimizer.zero_grad()
        loss = self.algorithm(self.model, batch, generator or draws(batch)).loss
        with span("backward"):
            torch.autograd.backward(loss)
        with span("optimiser"):
            nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            self.optimizer.step()
        return loss.detach()

    def recorded(self) -> Callable[[Batch], Tensor] | None:
        """The same update replayed as a CUDA graph, as training on a GPU does; None where nothing is recorded."""
        own = OwnUpdate(self.model, self.algorithm, frozen_optimizer(self.model, recorded=True))

        def update(batch: Batch, _step: int, generator: torch.Generator, _hold: bool) -> dict[str, Tensor]:
            return {"loss": own.step(batch, generator)}  # a learning rate of 0 leaves all as it was anyway

        replay = recorder(update, Objective(self.model, self.algorithm), TrainingSettings(compile="on"))
        return None if replay is None else lambda batch: replay(batch, batch.ids[0] if batch.ids else 0)["loss"]


def make_methods(setting: Setting, model: EncoderDecoder, batches: Sequence[Batch]) -> list[TimedMethod]:
    """Every method of a setting's table; ours share the model, and with it the weights."""
    optimizer = frozen_optimizer(model)
    methods = [
        plain_method(setting, batches, next(model.parameters()).device),
        *own_methods(OURS, OwnUpdate(model, Mle(), optimizer), {"algorithm": "mle"}),
    ]
    for count in setting.choices:
        shown = count or len(setting.vocab.choosable)
        for roll_out in ROLL_OUTS:
            update = OwnUpdate(model, searnn(setting, roll_out, count), optimizer)
            about = {"algorithm": "searnn", "roll_in": "learned", "roll_out": roll_out, "tokens": shown}
            methods += own_methods(f"{roll_out} {shown}", update, about)
    return methods


def plain_method(setting: Setting, batches: Sequence[Batch], device: torch.device) -> TimedMethod:
    """Maximum likelihood in plain PyTorch; it is given the sources' lengths on the host, as a loader has them."""
    model = make_plain(setting).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    lengths = source_lengths(batches)

    def step(batch: Batch) -> Tensor:
        source, vocab = batch.inputs.values, batch.vocabulary
        return train_plainly(model, optimizer, source, lengths[batch.ids], batch.targets, vocab.bos, vocab.pad)

    return TimedMethod(PLAIN, step, {"algorithm": "mle", "code": "plain PyTorch"})


def own_methods(name: str, update: OwnUpdate, about: Mapping[str, Any]) -> list[TimedMethod]:
    """An update as it is, and where there is a GPU replayed as a CUDA graph."""
    methods = [TimedMethod(name, update.step, about, update.algorithm)]
    on_gpu = next(update.model.parameters()).device.type == "cuda"
    if on_gpu and (recorded := update.recorded()) is not None:
        shown = {**about, "recorded": True}
        methods.append(TimedMethod(f"{name} recorded", recorded, shown, update.algorithm, recorded=True))
    return methods


def searnn(setting: Setting, roll_out: str, count: int | None) -> Searnn:
    """SEARNN with a learned roll-in, this roll-out, and so many candidates at each cell (None: all)."""
    reference = Reference(setting.oracle)
    roll_outs: dict[str, RollOut] = {"learned": Learned(), "mixed": Mixed(reference), "reference": reference}
    tokens = AllTokens() if count is None else TopTokens(count)
    return Searnn(Learned(), roll_outs[roll_out], setting.cost(setting.vocab), setting.loss, tokens)


def frozen_optimizer(model: nn.Module, recorded: bool = False) -> torch.optim.Optimizer:
    """The training loop's Adam, which here changes nothing."""
    optimizer = make_optimizer(TrainingSettings(optimizer="adam", lr=1e-3), model, recorded)
    set_rate(optimizer, 0.0)
    return optimizer


def make_plain(setting: Setting) -> PlainModel:
    """The setting's model in plain PyTorch."""
    return PlainModel(
        setting.vocab.size, setting.vocab.embeddings, setting.width, features=setting.features,
        source_size=setting.source_size, bidirectional=setting.bidirectional,
        attention=setting.attention == "additive",
    )  # fmt: skip


def source_lengths(batches: Sequence[Batch]) -> dict[Any, Sequence[int] | None]:
    """The lengths of each batch's sources by its ids; None where all are full."""
    found: dict[Any, Sequence[int] | None] = {}
    for batch in batches:
        lengths = batch.inputs.lengths.tolist()
        full = min(lengths) == batch.inputs.values.shape[1]
        found[batch.ids] = None if full else lengths
    return found


def draws(batch: Batch) -> torch.Generator:
    """The randomness of a step: the same for a batch whenever it comes again."""
    return rng.generator(0, "bench", batch.ids[0] if batch.ids else 0)
