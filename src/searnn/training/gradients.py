"""The gradient of one batch: at once, or in shards over several ranks and one after the other.

However a batch is cut, its gradient is that of the whole, to rounding. The mean over examples is a sum over shards with
weights that are known. The mean over cells is not: how many cells a shard has is known when it has been searched, so
the shards add up sums over cells, and the gradient is divided by the number of all cells in the end. What is logged is
a mean over the examples of the whole in the same way, or over what its algorithm counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.data import sharding
from searnn.interfaces import Normalised, Sharded, TrainingData
from searnn.rng import Shard
from searnn.training.devices import to_device
from searnn.training.objective import Objective, Work, seeded_work
from searnn.training.settings import TrainingSettings
from searnn.training.world import AgreedError, World
from searnn.types import Batch, SearnnError


def check_shards(settings: TrainingSettings, world: World) -> None:
    """Refuse batches that have not an example for every shard."""
    if settings.batch_size < world.size * settings.accumulate:
        told = f"the batch size is {settings.batch_size}, expected at least {world.size * settings.accumulate}"
        raise SearnnError(f"{told}: an example for each of {world.size} ranks times accumulate {settings.accumulate}")


class Gradients:
    """Makes gradients, step by step; a batch is cut into `count` shards, over all ranks together."""

    def __init__(
        self, objective: Objective, data: TrainingData, settings: TrainingSettings, world: World, device: torch.device
    ) -> None:
        self.objective, self.data, self.seed, self.world, self.device = objective, data, settings.seed, world, device
        self.parameters = [parameter for parameter in objective.parameters() if parameter.requires_grad]
        self.count = world.size * settings.accumulate
        self.own = range(world.rank, self.count, world.size)
        algorithm = objective.algorithm
        self.over = algorithm.normalisation if isinstance(algorithm, Normalised) else "batch"

    def add(self, fabric: Any, objective: Any, step: int) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Add the gradient of the step's batch to the parameters'; the batch's loss and what is logged of it.

        `objective` is the one given before, as Fabric has wrapped it.
        """
        if self.count == 1:
            return self.add_whole(fabric, objective, self._work(self.data.batch(step), step))
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        names: list[str] = []
        for batch, shard in self._shards(step):
            with self._unsent(fabric, objective, shard):
                output, logs, cells, counts = objective(self._work(batch, step, shard))
                weight = self._weight(shard, output, cells)
                fabric.backward(output * (weight * self.world.size))  # DDP takes the mean over ranks, not the sum
            examples = torch.tensor(len(shard.rows))  # what a log is a mean over, unless it says so
            weights = [torch.as_tensor(weight, dtype=torch.float64), *(counts.get(name, examples) for name in logs)]
            row = torch.stack([self._scalar(value) for value in (output, *logs.values(), *weights)])
            values, numbers = row.chunk(2)
            total = total + torch.cat([values * numbers, numbers])
            names = list(logs)
        sums, numbers = self.world.sum(total).chunk(2)
        loss = sums[0]
        if self.over == "cell":
            weight = numbers[0].clamp(min=1 / shard.whole)
            loss = loss / weight
            gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
            torch._foreach_mul_(gradients, weight.reciprocal().to(gradients[0].dtype))
        return loss, dict(zip(names, (sums[1:] / numbers[1:].clamp(min=1)).unbind(), strict=True))

    def add_whole(self, fabric: Any, objective: Any, work: Work) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Add the gradient of a whole batch, all at once."""
        output, logs, *_ = objective(work)
        fabric.backward(output)
        return output.detach(), logs

    def leaves_some_out(self) -> bool:
        """Whether the first step leaves parameters without a gradient, on any rank: DDP must know beforehand."""
        batch, shard = next(self._shards(0))
        loss, *_ = self.objective(self._work(batch, 0, shard))
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        return self.world.any(any(gradient is None for gradient in found))[0]

    def _shards(self, step: int) -> Iterator[tuple[Batch, Shard]]:
        """This rank's shards of the step's batch, on the host."""
        make = self.data.shard if isinstance(self.data, Sharded) else self._cutter(step)
        for index in self.own:
            yield make(step, index, self.count)

    def _cutter(self, step: int) -> Callable[[int, int, int], tuple[Batch, Shard]]:
        """Makes shards of the step's batch where the data offers whole batches only."""
        batch = self.data.batch(step)
        if len(batch.targets) < self.count:
            told = f"the batch of step {step} has {len(batch.targets)} examples"
            raise AgreedError(f"{told}, which cannot be cut into {self.count} shards: give it more")

        def cut(step: int, index: int, count: int) -> tuple[Batch, Shard]:  # noqa: ARG001
            shard = sharding.deal(batch.lengths, index, count)
            return sharding.take(batch, shard.rows), shard

        return cut

    def _work(self, batch: Batch, step: int, shard: Shard | None = None) -> Work:
        dtype = next(self.objective.model.parameters()).dtype
        return seeded_work(to_device(batch, self.device, dtype), self.seed, step, shard)

    def _unsent(self, fabric: Any, objective: Any, shard: Shard) -> AbstractContextManager[None]:
        """Gradients stay here until that of the last shard is there."""
        if self.world.size == 1 or shard.index == self.own[-1]:
            return nullcontext()
        return fabric.no_backward_sync(objective)  # type: ignore[no-any-return]

    def _weight(
        self, shard: Shard, loss: Float[Tensor, ""], cells: Int[Tensor, ""] | None
    ) -> float | Float[Tensor, ""]:
        """What a shard's loss counts in that of its batch; a mean over cells by cells over examples, for now."""
        if self.over == "sum":
            return 1.0
        if self.over == "batch":
            return len(shard.rows) / shard.whole
        if cells is None:
            told = f"{type(self.objective.algorithm).__name__} has the normalisation {self.over!r} and no Update.cells"
            raise AgreedError(f"{told}: give them, or do not have its batches cut into shards")
        return cells.to(loss.dtype) / shard.whole

    def _scalar(self, value: Tensor) -> Float[Tensor, ""]:
        return value.detach().to(self.device, torch.float64, non_blocking=True).mean()
