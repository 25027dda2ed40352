"""A training step recorded as a CUDA graph once for each shape of batch, then replayed as one launch.

Small models leave a GPU waiting for the host, which starts hundreds of kernels a step. A replayed step costs the host
next to nothing. Batches are padded to few shapes; randomness comes from generators on the device, seeded before each
step; nothing else may come from the host while a step is recorded. An algorithm with phases is recorded in each of
them. A probability that moves at every step stands in a tensor that the recorded steps read; while anything else moves
at every step, steps run as usual.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from searnn import rng, schedules, tree
from searnn.engine import announce, log
from searnn.interfaces import Algorithm, AsksHost, Movable
from searnn.training.devices import to_device
from searnn.training.objective import Objective, components
from searnn.training.recording import Logs, Recorder, Step
from searnn.training.settings import TrainingSettings
from searnn.training.world import World
from searnn.types import Batch, Inputs, SearnnError

WARM_UPS = 2  # libraries choose their kernels and take their memory before a step is recorded
MOST_GRAPHS = 96
MOST_PHASES = 1000  # that are remembered: a schedule brings a new one with every step
RESTLESS = 20  # new phases in a row before it is said that nothing can be recorded meanwhile

Node = TypeVar("Node")
Shapes = tuple[tuple[int, ...], ...]
Key = tuple[Shapes, object]  # what a recorded step depends on: the shape of the batch, and the algorithm as it is


class Graph(NamedTuple):
    """A recorded step: what it reads, and what it leaves."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    logs: Logs


def records_steps(objective: Objective, settings: TrainingSettings, world: World, device: torch.device) -> bool:
    """Whether steps are recorded as CUDA graphs: where that can be, unless told otherwise."""
    algorithm = objective.algorithm
    hindrances = {
        "there is no CUDA device": device.type != "cuda",
        "several processes train together": world.size > 1,
        "gradients are accumulated": settings.accumulate > 1,
        "16-mixed precision looks at every gradient": settings.precision == "16-mixed",
        f"{type(algorithm).__name__} asks the host at every step": asks_host(algorithm),
    }
    hindered = next((hindrance for hindrance, holds in hindrances.items() if holds), None)
    if settings.compile == "on":
        if hindered is not None:
            raise SearnnError(f"compile is on, but {hindered}: use compile auto or off")
        return True
    if hindered is None and not may_be_recorded(objective.model, algorithm):
        hindered = "code that is not this library's takes part"
    if hindered is not None and settings.compile == "auto" and device.type == "cuda":
        announce(f"steps are not recorded as CUDA graphs: {hindered}")
    return hindered is None and settings.compile == "auto"


def recorder(step: Step, objective: Objective, settings: TrainingSettings) -> Recorder:
    """Makes steps by replay; the objective's algorithm gets dials in place of schedules that may move."""
    parameters = list(objective.parameters())
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    kept = [*(parameter for parameter in parameters if not parameter.requires_grad), *objective.buffers()]
    captured = Captured(step, trained, optional=settings.compile == "auto", kept=kept)
    objective.algorithm = with_dials(objective.algorithm, captured.device)

    def replay(batch: Batch, number: int) -> Logs:
        algorithm, dropout = (rng.derive(settings.seed, name, number) for name in ("algorithm", "dropout"))
        return captured(batch, number, (algorithm, dropout), phase_of(objective.algorithm, number))

    return replay


class Captured:
    """Makes steps by replay: the first batch of a shape runs as usual, the second is recorded.

    `kept` is what a step may change besides the parameters (delayed copies, buffers), always in place. The logs that
    come back are overwritten by the next replay. Where a step cannot be recorded, `optional` lets it run as usual for
    good.
    """

    def __init__(
        self, step: Step, parameters: Sequence[nn.Parameter], optional: bool, kept: Sequence[Tensor] = ()
    ) -> None:
        self.step, self.parameters, self.optional, self.kept = step, parameters, optional, kept
        self.device, self.dtype = parameters[0].device, parameters[0].dtype
        self.generator = torch.Generator(self.device)
        self.addresses: list[int] = []  # of the parameters, which the recorded steps read and write
        self.graphs: dict[Key, Graph] = {}
        self.seen: set[Key] = set()
        self.pool: Any = torch.cuda.graph_pool_handle()
        self.seconds = 0.0  # spent on recording
        self.given_up = False
        self.phases: set[object] = set()  # those that were seen
        self.new = 0  # phases in a row that were not

    def __call__(self, batch: Batch, step: int, seeds: tuple[int, int], phase: object = None) -> Logs:
        """One step; the seeds are the algorithm's and that of dropout, `phase` is the algorithm as it is now."""
        batch = rounded(batch)
        self._note(phase)
        key = (shapes(batch), phase)
        addresses = [tensor.data_ptr() for tensor in (*self.parameters, *self.kept)]
        if addresses != self.addresses:
            self.graphs, self.addresses = {}, addresses
        if key not in self.graphs and key in self.seen and not self.given_up and self._has_room(phase):
            self._try_to_record(key, batch, step)
        self.seen.add(key)  # what comes once is not worth recording
        self._seed(seeds)
        if key not in self.graphs:
            return self.step(to_device(batch, self.device, self.dtype), step, self.generator, False)
        recorded = self.graphs[key]
        for kept, new in zip(tree.leaves(recorded.batch), tree.leaves(batch), strict=True):
            kept.copy_(new if new.is_cuda else new.pin_memory(), non_blocking=True)
        recorded.graph.replay()
        return recorded.logs

    def _note(self, phase: object) -> None:
        """Take note of the phase; where none comes back, say once that this keeps steps from being recorded."""
        if len(self.phases) >= MOST_PHASES:
            self.phases, self.seen = set(), set()
        self.new = 0 if phase in self.phases else self.new + 1
        self.phases.add(phase)
        if self.new == RESTLESS:
            announce("steps are not recorded as CUDA graphs while the algorithm's settings change at every step")

    def _has_room(self, phase: object) -> bool:
        """Whether one more graph may be kept; those of other phases make room."""
        if len(self.graphs) >= MOST_GRAPHS:
            self.graphs = {key: graph for key, graph in self.graphs.items() if key[1] == phase}
        return len(self.graphs) < MOST_GRAPHS

    def _try_to_record(self, key: Key, batch: Batch, step: int) -> None:
        began = time.perf_counter()
        try:
            self.graphs[key] = self._record(batch, step)
        except RuntimeError as error:
            torch.cuda.synchronize(self.device)
            told = " ".join(str(error).split())[:200]
            if not self.optional:
                raise SearnnError(f"a step cannot be recorded as a CUDA graph: {told}; use compile off") from error
            log.warning("engine: steps are not recorded as CUDA graphs: %s", told)
            self.given_up = True
            return
        self.seconds += time.perf_counter() - began
        told = "engine: recorded a step of shape %s as a CUDA graph; %.1f s spent on that so far"
        log.info(told, key[0], self.seconds)

    def _record(self, batch: Batch, step: int) -> Graph:
        batch = planned_for_all(to_device(batch, self.device, self.dtype))
        aside: Any = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream(self.device))
        before = [tensor.clone() for tensor in self.kept]
        with torch.cuda.stream(aside):
            for _ in range(WARM_UPS):
                self.step(batch, step, self.generator, True)
        torch.cuda.current_stream(self.device).wait_stream(aside)
        with torch.no_grad():
            for tensor, value in zip(self.kept, before, strict=True):
                tensor.copy_(value)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        with torch.cuda.graph(graph, pool=self.pool):
            logs = self.step(batch, step, self.generator, False)
        return Graph(graph, batch, logs)

    def _seed(self, seeds: tuple[int, int]) -> None:
        self.generator.manual_seed(seeds[0])
        torch.default_generator.manual_seed(seeds[1])
        torch.cuda.default_generators[self.generator.device.index or 0].manual_seed(seeds[1])


class Dial:
    """A schedule whose value stands in a tensor: a recorded step reads there what it is now."""

    scheduled: ClassVar[bool] = True

    def __init__(self, schedule: schedules.Schedule, device: torch.device) -> None:
        self.schedule, self.value = schedule, torch.zeros((), device=device)

    def __call__(self, step: int) -> Tensor:
        """The tensor, with the value of this step; while a step is recorded, with whatever will be in it."""
        if not (self.value.is_cuda and torch.cuda.is_current_stream_capturing()):
            self.value.fill_(self.schedule(step))
        return self.value


def with_dials(node: Node, device: torch.device) -> Node:
    """The same record with a dial for every schedule whose value may be a tensor, as its holder's `may_move` says."""
    if not is_dataclass(node) or isinstance(node, (type, nn.Module)):
        return node
    changed: dict[str, Any] = {}
    may_move = node.may_move if isinstance(node, Movable) else ()
    for name, old in tree.field_values(node):
        moves = name in may_move and isinstance(old, schedules.Schedule)
        new = Dial(old, device) if moves else with_dials(old, device)
        if new is not old:
            changed[name] = new
    return replace(node, **changed) if changed else node


def phase_of(algorithm: Any, step: int) -> object:
    """What tells the phases of an algorithm apart; None where it is the same at every step."""
    now = schedules.at(algorithm, step)
    if now is algorithm:
        return None
    try:
        hash(now)
    except TypeError:  # by what it holds: no two steps are known to be equal
        return object()
    return now


def may_be_recorded(model: nn.Module, algorithm: Algorithm) -> bool:
    """Whether all that runs in a step is ours.

    Another's code might look back to the host: what Python decides while a step is recorded would be decided for all.
    """
    members = [*components(algorithm), *model.modules()]
    return all(type(member).__module__.partition(".")[0] in ("searnn", "torch") for member in members)


def asks_host(algorithm: Algorithm) -> bool:
    """Whether an algorithm or a component of it asks the host for something at every step."""
    return any(isinstance(one, AsksHost) and one.asks_host for one in components(algorithm))


def planned_for_all(batch: Batch) -> Batch:
    """The batch as a plan must see it that serves every batch of its shape: each example may use all cells."""
    examples, cells = batch.targets.shape
    return replace(batch, host_lengths=(cells,) * examples, ids=None)


def shapes(batch: Batch) -> Shapes:
    """What a recorded step depends on."""
    return tuple(tuple(leaf.shape) for leaf in tree.leaves((batch.inputs, batch.targets)))


def rounded(batch: Batch) -> Batch:
    """The batch padded so that few shapes occur; padding changes no result."""
    targets = widen(batch.targets, batch.vocabulary.pad)
    inputs = batch.inputs
    if isinstance(inputs, Inputs):
        inputs = inputs._replace(values=widen(inputs.values, 0))
    return replace(batch, inputs=inputs, targets=targets)


def widen(values: Tensor, fill: int) -> Tensor:
    """`values` filled up along axis 1 to a round number of positions."""
    extra = round_number(values.shape[1]) - values.shape[1]
    if not extra:
        return values
    return functional.pad(values, (*[0, 0] * (values.ndim - 2), 0, extra), value=fill)


def round_number(size: int) -> int:
    """The next of 2, 4, ..., 32, 40, ..., 64, 80, ...: beyond 4 at most a quarter more."""
    part = next((part for most, part in ((32, 2), (64, 8)) if size <= most), 16)
    return -(-size // part) * part
