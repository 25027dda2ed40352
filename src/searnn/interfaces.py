"""The seams: what a model, a policy, an oracle, a cost, a sampler, a loss, an algorithm and a task must offer.

Nothing here needs to be inherited: an object with these methods is one. First come the protocols that every member of
an axis keeps; the optional ones after them are capabilities that the library uses where an object offers them. They are
always asked for by `isinstance`, so what is not written down here does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from searnn.rng import Shard
from searnn.types import Batch, Branches, Rows, Update, Vocabulary

Memory = Any  # a tree whose leaves are [B, ...]: what the model keeps of the input
State = Any  # a tree whose leaves are [B, R, ...]: what the model keeps of each row
Trail = Any  # what `fork` needs of a traced sequence


@runtime_checkable
class Stepper(Protocol):
    """The least a model needs: anything that can be stepped can be rolled in and out."""

    vocab: Vocabulary

    def encode(self, inputs: Any) -> Memory:
        """Read the inputs once."""

    def start(self, memory: Memory) -> State:
        """The state of one row per example, BOS not yet consumed: leaves `[B, 1, ...]`."""

    def step(self, memory: Memory, state: State, tokens: Int[Tensor, "B R"]) -> tuple[Float[Tensor, "B R V"], State]:
        """Consume one token per row; score the next."""


@runtime_checkable
class Model(Stepper, Protocol):
    """A stepper that can also score a whole sequence at once and restart from any cell of it."""

    def trace(self, memory: Memory, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T V"], Trail]:
        """Score a given sequence: `scores[:, t]` has seen BOS and `tokens[:, :t]`."""

    def fork(self, memory: Memory, trail: Trail, cells: Int[Tensor, "B R"]) -> tuple[Memory, State]:
        """Rows before cell `cells[b, r]`: BOS and `tokens[:, :cell]` are consumed, the token of the cell is not."""


class Encoded(NamedTuple):
    """A batch as a model has read it: what policies work on. The trail is there once a prefix has been traced."""

    model: Model
    memory: Memory
    trail: Trail = None


@runtime_checkable
class RollIn(Protocol):
    """Writes the prefix that the search branches from."""

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """A prefix for every example."""


@runtime_checkable
class RollOut(Protocol):
    """Finishes the branches."""

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """A finished output for every branch."""


@runtime_checkable
class Policy(RollIn, RollOut, Protocol):
    """Both at once. Deprecated: say `RollIn` or `RollOut`, whichever is meant."""


@runtime_checkable
class Oracle(Protocol):
    """The reference policy: sees the truth, never runs the model."""

    def complete(self, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"]:
        """A finished output for every branch."""


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
    """Training batches as a pure function of the step, so that a resumed run sees what an unbroken one would."""

    steps_per_epoch: int

    def batch(self, step: int) -> Batch: ...


@runtime_checkable
class Task(Protocol):
    """A data set with its vocabulary, its metric and the paper's choice of cost."""

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

    def show(self, tokens: Sequence[int]) -> str:
        """An output as a person reads it."""


# What a model may offer besides.


@runtime_checkable
class RowCost(Protocol):
    """Knows what a row takes, such as for attention over its memory: rows that run together then fit the budget."""

    def row_bytes(self, memory: Memory, length: int) -> int:
        """About how many bytes one row takes in a step, where outputs have `length` cells."""


@runtime_checkable
class SameInTraining(Protocol):
    """Says whether it does in training what it does in evaluation: one encoding then serves search and learning."""

    same_in_training: bool


@runtime_checkable
class GreedyFinisher(Protocol):
    """Finishes rows by its best tokens in a faster way than step by step."""

    def finish_greedily(self, memory: Memory, state: State, rows: Rows) -> Int[Tensor, "B R T"] | None:
        """The finished rows, None where there is no such way."""


@runtime_checkable
class Attends(Protocol):
    """Tells where it looks, for pictures."""

    def looked_at(self, memory: Memory, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T S"]:
        """How much each cell of a given sequence attends to each source position."""


# What policies, costs, samplers and losses may offer besides.


@runtime_checkable
class Repeats(Protocol):
    """A roll-out that may go on as the roll-in went on: the branch with the roll-in's own token is then not run."""

    def repeats(self, roll_in: RollIn) -> bool:
        """Whether finishing a prefix of the roll-in's own gives the roll-in again."""


@runtime_checkable
class KnownCosts(Protocol):
    """A roll-out that may know what its outputs cost without looking at them."""

    def known_costs(self, cost: Cost, branches: Branches, batch: Batch) -> Float[Tensor, "B C K"] | None:
        """The cost of every finished branch, None where it must be looked at."""


@runtime_checkable
class ClosedForm(Protocol):
    """A cost with a formula for what an oracle completes, so that the outputs need not be compared."""

    def closed_form(self, oracle: str, branches: Branches, batch: Batch) -> Float[Tensor, "B C K"] | None:
        """The cost of the completions by the oracle of this name, None where there is no formula."""


@runtime_checkable
class NeedsVocabulary(Protocol):
    """A cost (a dataclass) that must know EOS and PAD: where its `vocab` is None the search fills in the model's."""

    vocab: Vocabulary | None


@runtime_checkable
class Distinct(Protocol):
    """A token sampler that says whether it never repeats a candidate: the search then need not look."""

    distinct: bool


@runtime_checkable
class NeedsScores(Protocol):
    """A cell sampler that is called with the roll-in's `scores=` where `needs_scores` is true."""

    needs_scores: bool


@runtime_checkable
class NeedsRandomness(Protocol):
    """A loss that is called with `rng=` where `random` is true, as one that breaks ties by a draw."""

    random: bool


# What an algorithm, or a part of one, may offer besides.


@runtime_checkable
class Attachable(Protocol):
    """An algorithm that makes modules of its own, such as a critic, whose sizes are the model's."""

    def attach(self, model: nn.Module) -> None:
        """Make them, before the optimiser is made."""


@runtime_checkable
class Phased(Protocol):
    """An algorithm that is not the same at every update."""

    def at(self, step: int) -> Algorithm:
        """What it is at this update."""


@runtime_checkable
class Normalised(Protocol):
    """An algorithm that says what its loss is a mean over ("batch", "cell" or "sum"), so that batches can be cut."""

    normalisation: str


@runtime_checkable
class Advised(Protocol):
    """An algorithm that wants other defaults than the task for settings beside its own, such as the cost."""

    recipe: Mapping[str, Any]


@runtime_checkable
class Movable(Protocol):
    """Names those of its fields whose schedule may be read from a tensor while steps are recorded as CUDA graphs."""

    may_move: tuple[str, ...]


@runtime_checkable
class AsksHost(Protocol):
    """A part that says whether it asks the host for something at every step: such steps cannot be recorded."""

    asks_host: bool


# What a task, or its data, may offer besides.


@runtime_checkable
class Sharded(Protocol):
    """Training data that can make a shard of a batch alone: processes that share one make no more than their own."""

    def shard(self, step: int, index: int, count: int) -> tuple[Batch, Shard]:
        """Some of the batch's examples, padded as in the batch, and which these are."""


@runtime_checkable
class Fingerprinted(Protocol):
    """Training data with a digest: a run is resumed on the same data only."""

    fingerprint: str


@runtime_checkable
class Loads(Protocol):
    """A task that can read all its data before training begins."""

    notes: Sequence[str]  # what was left out of it

    def load(self) -> None:
        """Read everything."""


@runtime_checkable
class ReadsLines(Protocol):
    """A task whose inputs are lines of text: `searnn predict` reads them."""

    def read(self, line: str) -> Any:
        """The line as an input."""


@runtime_checkable
class GivesRoom(Protocol):
    """A task whose outputs end by themselves, and which says how long they may become."""

    def cells(self, lengths: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        """How many cells the outputs for inputs of these lengths may take."""


@runtime_checkable
class KeepsVocabulary(Protocol):
    """A task that has learned its vocabulary of its data, and keeps it with the run."""

    identity: str  # a digest of it

    def save(self, folder: Path) -> None:
        """Write it there."""


@runtime_checkable
class HasUnits(Protocol):
    """A task whose tokens stand for words or characters, which a user's own cost function sees in their place."""

    def units(self, tokens: Sequence[int]) -> list[str]:
        """What the tokens stand for."""


@runtime_checkable
class Knowledgeable(Protocol):
    """A task that knows more of its vocabulary than sizes, for costs and oracles: its tags, its unknown word."""

    knowledge: Mapping[str, Any]


@runtime_checkable
class Signed(Protocol):
    """A task whose metric has several definitions, and which names the one it uses."""

    signature: str | None


@runtime_checkable
class NamesSources(Protocol):
    """A task whose input tokens stand for words or characters, which reports show in place of numbers.

    Tokens come as in the values of `Inputs`: a number for each position, or a row of columns.
    """

    def source_units(self, tokens: Sequence[Any]) -> list[str]:
        """What each position stands for."""

    def show_source(self, tokens: Sequence[Any]) -> str:
        """An input as a person reads it."""


@runtime_checkable
class ReadsTargets(Protocol):
    """A task that reads true outputs given as text, for `searnn explain --target`; else names are looked up in it."""

    def read_target(self, text: str) -> list[int]:
        """The text as target tokens, without EOS."""


@runtime_checkable
class Named(Protocol):
    """A cost, a loss or another member of an axis that says what reports call it."""

    name: str
