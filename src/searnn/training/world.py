"""The processes that train together: which of them this one is, and what they tell each other.

torchrun starts the same program several times; each process is a rank. They split the work and agree on everything
else: rank 0 alone writes, and what one of them finds wrong ends all. A process that runs alone sends nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import Tensor, distributed

from searnn.types import SearnnError

Value = TypeVar("Value")

WAIT = timedelta(minutes=10)  # how long a rank waits for the others before it gives up
PLACE = re.compile(r"^\[[^]]*\] *")  # in the source of gloo


class AgreedError(SearnnError):
    """A mistake that all ranks know of: it is enough that one of them tells it."""


@dataclass(frozen=True)
class World:
    """This process among those that train together; the local numbers count those on the same machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes and speaks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all ranks, in place; on a GPU the host does not wait for it."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Which of the flags are up on any rank."""
        if self.size == 1:
            return flags
        raised = self.sum(torch.tensor(flags, dtype=torch.int64))
        return tuple(bool(count) for count in raised.tolist())

    def gather(self, value: Value) -> list[Value]:
        """What every rank gives, in the order of ranks."""
        if self.size == 1:
            return [value]
        values: list[Value] = [value] * self.size
        distributed.all_gather_object(values, value)
        return values

    def by_first(self, make: Callable[[], Value]) -> Value:
        """What rank 0 makes, for all; a mistake there is one on all ranks."""
        if self.size == 1:
            return make()
        told: list[tuple[Value | None, str | None]] = [(None, None)]
        if self.first:
            try:
                told = [(make(), None)]
            except SearnnError as error:
                told = [(None, str(error))]
        distributed.broadcast_object_list(told)
        made, mistake = told[0]
        if mistake is not None:
            raise AgreedError(mistake)
        return made  # type: ignore[return-value]

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is inside, which sends nothing, goes well on all ranks or is a mistake on all."""
        mistake: SearnnError | None = None
        try:
            yield
        except SearnnError as error:
            if self.size == 1:
                raise
            mistake = error
        mistakes = self.gather(None if mistake is None else str(mistake))
        first = next((text for text in mistakes if text is not None), None)
        if first is not None:
            raise AgreedError(first) from mistake

    @contextmanager
    def in_turn(self) -> Iterator[None]:
        """One process of each machine goes first, the others follow: what it has fetched they find."""
        if self.size > 1 and self.local_rank:
            self.gather(None)
        try:
            yield
        finally:
            if self.size > 1 and not self.local_rank:
                self.gather(None)


@contextmanager
def joined() -> Iterator[World]:
    """This process among those that torchrun started, or alone; inside another `joined` it is the same."""
    world = launched()
    if world.size == 1:
        yield world
        return
    ours = not distributed.is_initialized()
    if ours:  # the host's messages never go by the GPUs, where they would wait for what these are doing
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=WAIT)
    try:
        yield world
    except RuntimeError as error:
        if not _is_lost(error):
            raise
        cause = PLACE.sub("", str(error).splitlines()[0]).partition(". ")[0][:200]
        advice = "see what the one that failed says; the run can be resumed from its last checkpoint"
        raise SearnnError(f"the other ranks are lost ({cause}): {advice}") from error
    if ours:  # not after a failure, where it might wait for those that are gone
        distributed.destroy_process_group()


def launched() -> World:
    """This process among those that torchrun started, which need not have met; or alone."""
    if not distributed.is_available() or not distributed.is_torchelastic_launched():
        return World()
    return World(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")))


def _is_lost(error: RuntimeError) -> bool:
    """Whether a process could not be reached: gloo has no error of its own."""
    return isinstance(error, distributed.DistError) or any(name in str(error) for name in ("gloo", "NCCL"))
