"""The seams: what a model, a policy, an oracle, a cost, a sampler, a loss, an algorithm and a task must offer.

Nothing here needs to be inherited: an object with these methods is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.types import Batch, Branches, Update, Vocabulary

Memory = Any  # a tree whose leaves are [B, ...]: what the model keeps of the input
State = Any  # a tree whose leaves are [B, R, ...]: what the model keeps of each row
Trail = Any  # what `fork` needs of a traced sequence


@runtime_checkable
class Stepper(Protocol):
    """The least a model needs: anything that can be stepped can be rolled in and out."""

    vocab: Vocabulary

    def encode(self, inputs: Any) -> Memory:
        """Read the inputs once."""
        ...

    def start(self, memory: Memory) -> State:
        """The state of one row per example, BOS not yet consumed: leaves `[B, 1, ...]`."""
        ...

    def step(self, memory: Memory, state: State, tokens: Int[Tensor, "B R"]) -> tuple[Float[Tensor, "B R V"], State]:
        """Consume one token per row; score the next."""
        ...


@runtime_checkable
class Model(Stepper, Protocol):
    """A stepper that can also score a whole sequence at once and restart from any cell of it."""

    def trace(self, memory: Memory, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T V"], Trail]:
        """Score a given sequence: `scores[:, t]` has seen BOS and `tokens[:, :t]`."""
        ...

    def fork(self, memory: Memory, trail: Trail, cells: Int[Tensor, "B R"]) -> tuple[Memory, State]:
        """Rows before cell `cells[b, r]`: BOS and `tokens[:, :cell]` are consumed, the token of the cell is not."""
        ...


@runtime_checkable
class Policy(Protocol):
    """Finishes sequences, on either side of the branch."""

    def roll_in(self, model: Model, memory: Memory, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The prefix that the search branches from."""
        ...

    def roll_out(
        self, model: Model, memory: Memory, trail: Trail, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """A finished output for every branch."""
        ...


@runtime_checkable
class Oracle(Protocol):
    """The reference policy: sees the truth, never runs the model."""

    def complete(self, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"]:
        """A finished output for every branch."""
        ...


@runtime_checkable
class Cost(Protocol):
    """The test error of finished outputs: 0 is perfect, lower is better."""

    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]: ...


@runtime_checkable
class TokenSampler(Protocol):
    """Chooses the candidates of each costed cell; the true token is always among them."""

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]: ...


@runtime_checkable
class CellSampler(Protocol):
    """Chooses the cells to cost; a cell past the end or a repeated one is masked by the search."""

    def __call__(self, prefix: Int[Tensor, "B T"], batch: Batch, rng: torch.Generator) -> Int[Tensor, "B C"]: ...


@runtime_checkable
class Loss(Protocol):
    """A cost-sensitive loss of each cell from the scores and costs of its candidates."""

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]: ...


@runtime_checkable
class Algorithm(Protocol):
    """Turns a batch into a loss; only the trainer takes the step."""

    def __call__(self, model: Model, batch: Batch, rng: torch.Generator) -> Update: ...


@runtime_checkable
class TrainingData(Protocol):
    """Training batches as a pure function of the step, so that a resumed run sees what an unbroken one would.

    Data may offer `part(step, index, count)` besides: some of the batch's examples, padded as in the batch, and the
    `Part` that says which. Processes that share a batch then make no more than their own.
    """

    steps_per_epoch: int

    def batch(self, step: int) -> Batch: ...


@runtime_checkable
class Task(Protocol):
    """A data set with its vocabulary, its metric and the paper's choice of cost.

    A task may offer more, which is used where it is there: `load()` reads all data before training begins, and `notes`
    tells what was left out of it; `read(line)` and `cells(lengths)` make a line of text an input of `searnn predict`
    and give its output room; `save(folder)` keeps the vocabulary with a run, and `identity` is a digest of it;
    `units(tokens)` is what a user's own cost function sees; `knowledge` goes to costs and oracles (tags, the unknown
    word); `signature` names the definition of the metric.
    """

    name: str
    vocab: Vocabulary
    features: int | None  # width of the input vectors, None where inputs are tokens
    source_size: int | None  # number of input tokens, None where inputs are vectors
    metric: str  # the entry of `metrics` that decides which model is best
    higher_is_better: bool

    def train(self, batch_size: int, seed: int) -> TrainingData: ...

    def valid(self, batch_size: int) -> Iterable[Batch]: ...

    def test(self, batch_size: int) -> Iterable[Batch]: ...

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Mapping[str, float]:
        """The task's own error of finished outputs, both as they stand before EOS and PAD."""
        ...

    def show(self, tokens: Sequence[int]) -> str:
        """An output as a person reads it."""
        ...
