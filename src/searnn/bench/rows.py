"""What is compared: maximum likelihood in plain PyTorch and in ours, and SEARNN in its settings; each takes a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from searnn import rng
from searnn.algorithms import Mle, Searnn
from searnn.bench.counting import Amounts, Tally
from searnn.bench.phases import Clock, altered, altered_call
from searnn.bench.plain import PlainModel, cross_entropy, shifted, train_plainly
from searnn.bench.settings import Setting
from searnn.fast.graphs import Captured
from searnn.interfaces import Algorithm, CellSampler, Policy
from searnn.models import EncoderDecoder
from searnn.policies import Focused, Learned, Mixed, Reference
from searnn.samplers import AllCells, AllTokens, TopTokens
from searnn.training import TrainingSettings
from searnn.training.optimisation import make_optimizer, set_rate
from searnn.types import Batch

PLAIN, OURS = "plain MLE", "MLE"  # the rows that the others are compared with
CLIP = 5.0
ROLL_OUTS: Mapping[str, Callable[[Reference], Policy]] = {
    "learned": lambda _: Learned(),
    "mixed": lambda reference: Mixed(reference),
    "reference": lambda reference: reference,
    "focused": lambda reference: Focused(1, reference=reference),
}

Step = Callable[[Batch], Tensor]  # a whole update: loss, backward, clipping, optimiser
Phased = Callable[[Batch, Clock], Amounts]  # the same under a clock; says what it asked of the model


@dataclass(frozen=True)
class Row:
    """One way to take a step. Without `phased` it is not broken down, and its floor is that of the row `like`."""

    name: str
    step: Step
    phased: Phased | None = None
    like: str | None = None
    about: Mapping[str, Any] | None = None


class Ours:
    """The update of an algorithm of this package, as the training loop takes it.

    The learning rate is 0: the optimiser does all its work, and the weights stay, so that every round times the same.
    """

    def __init__(self, model: EncoderDecoder, algorithm: Algorithm, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.algorithm, self.optimizer = model, algorithm, optimizer

    def step(self, batch: Batch, generator: torch.Generator | None = None) -> Float[Tensor, ""]:
        """One update."""
        self.optimizer.zero_grad()
        loss = self.algorithm(self.model, batch, generator or _generator(batch)).loss
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        self.optimizer.step()
        return loss.detach()

    def phased(self, batch: Batch, clock: Clock) -> Amounts:
        """The same update with every phase on the clock."""
        tally = Tally()
        model = tally.watch_model(self.model, clock)
        algorithm, rest, rolls_in = self.algorithm, "loss", False  # all that MLE does besides
        if isinstance(algorithm, Searnn):
            rest, rolls_in = "other", isinstance(algorithm.roll_in, Learned)
            algorithm = replace(
                algorithm,
                roll_in=altered(algorithm.roll_in, roll_in=clock.around("roll-in")),
                roll_out=tally.watch_roll_out(algorithm.roll_out, clock),
                cost=altered_call(algorithm.cost, clock.around("cost")),
                loss=altered_call(algorithm.loss, clock.around("loss")),
            )
        with clock.running():
            with clock.phase("optimiser"):
                self.optimizer.zero_grad()
            with clock.phase(rest):
                loss = algorithm(model, batch, _generator(batch)).loss
            with clock.phase("backward"):
                torch.autograd.backward(loss)
            with clock.phase("optimiser"):
                nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
                self.optimizer.step()
        return tally.amounts(batch.with_vocab(self.model.vocab), rolls_in)


class Recorded:
    """The same update replayed as a CUDA graph, which is how training on a GPU takes it."""

    def __init__(self, ours: Ours) -> None:
        self.ours = Ours(ours.model, ours.algorithm, frozen_optimizer(ours.model, recorded=True))
        self.captured = Captured(self._update, list(ours.model.parameters()), optional=False)

    def step(self, batch: Batch) -> Tensor:
        """One update; the first records it."""
        seed = batch.ids[0] if batch.ids else 0
        return self.captured(batch, 0, (seed, seed))["loss"]

    def _update(self, batch: Batch, step: int, generator: torch.Generator, hold: bool) -> dict[str, Tensor]:
        return {"loss": self.ours.step(batch, generator)}  # a learning rate of 0 leaves all as it was anyway


class Plain:
    """The update in plain PyTorch; `lengths` of the sources go by the ids of a batch, None where all are full."""

    def __init__(self, model: PlainModel, lengths: Mapping[Any, Sequence[int] | None]) -> None:
        self.model, self.lengths = model, lengths
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.0)

    def step(self, batch: Batch) -> Float[Tensor, ""]:
        """One update."""
        source, lengths, vocab = batch.inputs.values, self.lengths[batch.ids], batch.vocabulary
        return train_plainly(self.model, self.optimizer, source, lengths, batch.targets, vocab.bos, vocab.pad)

    def phased(self, batch: Batch, clock: Clock) -> Amounts:
        """The same update, its parts on the clock."""
        source, lengths, vocab = batch.inputs.values, self.lengths[batch.ids], batch.vocabulary
        with clock.running():
            with clock.phase("optimiser"):
                self.optimizer.zero_grad()
            with clock.phase("encode"):
                outputs, first = self.model.encode(source, lengths)
            with clock.phase("trace"):
                scores = self.model.decode(outputs, first, shifted(batch.targets, vocab.bos), lengths)
            with clock.phase("loss"):
                loss = cross_entropy(scores, batch.targets, vocab.pad)
            with clock.phase("backward"):
                torch.autograd.backward(loss)
            with clock.phase("optimiser"):
                nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
                self.optimizer.step()
        return Tally(traced=[batch.targets]).amounts(batch, rolls_in=False)


def make_rows(setting: Setting, model: EncoderDecoder, batches: Sequence[Batch]) -> list[Row]:
    """Every row of a setting's table; ours share the model, and with it the weights."""
    optimizer = frozen_optimizer(model)
    plain = Plain(make_plain(setting).to(next(model.parameters()).device), source_lengths(batches))
    rows = [
        Row(PLAIN, plain.step, plain.phased, about={"algorithm": "mle", "code": "plain PyTorch"}),
        *rows_of(OURS, Ours(model, Mle(), optimizer), {"algorithm": "mle"}),
    ]
    for count in setting.choices:
        for roll_out in ("learned", "mixed", "reference"):
            rows += searnn_rows(setting, model, optimizer, roll_out, count)
    return rows


def rows_of(name: str, ours: Ours, about: Mapping[str, Any]) -> list[Row]:
    """An update as it is, and where there is a GPU replayed as a CUDA graph."""
    rows = [Row(name, ours.step, ours.phased, about=about)]
    if next(ours.model.parameters()).device.type == "cuda":
        rows.append(Row(f"{name} recorded", Recorded(ours).step, like=name, about={**about, "recorded": True}))
    return rows


def searnn_rows(
    setting: Setting,
    model: EncoderDecoder,
    optimizer: torch.optim.Optimizer,
    roll_out: str,
    count: int | None,
    cells: CellSampler | None = None,
) -> list[Row]:
    """SEARNN with a learned roll-in, this roll-out, and so many candidates at each cell (None: all)."""
    algorithm = Searnn(
        roll_in=Learned(),
        roll_out=ROLL_OUTS[roll_out](Reference(setting.oracle)),
        cost=setting.cost(setting.vocab),
        loss=setting.loss,
        tokens=AllTokens() if count is None else TopTokens(count),
        cells=cells or AllCells(),
    )
    shown = count or len(setting.vocab.choosable)
    about = {"algorithm": "searnn", "roll_in": "learned", "roll_out": roll_out, "tokens": shown}
    return rows_of(f"{roll_out} {shown}", Ours(model, algorithm, optimizer), about)


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
    """The lengths of each batch's sources on the host, as a loader would give them; None where all are full."""
    found: dict[Any, Sequence[int] | None] = {}
    for batch in batches:
        lengths = batch.inputs.lengths.tolist()
        full = min(lengths) == batch.inputs.values.shape[1]
        found[batch.ids] = None if full else lengths
    return found


def _generator(batch: Batch) -> torch.Generator:
    """The randomness of a step: the same for a batch whenever it comes again."""
    return rng.generator(0, "bench", batch.ids[0] if batch.ids else 0)
