"""Any Python function of two token lists as a cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.costs.common import bound, check_vocab
from searnn.sequences.ends import strip
from searnn.types import SearnnError, Vocabulary

ListCost = Callable[[list[Any], list[Any]], Any]


@dataclass(frozen=True)
class CallableCost:
    """The cost that a function gives of the output and the target, both as lists of what stands before their end.

    Runs on the host, once for each distinct output of each example: the function must be a function of its arguments.
    """

    vocab: Vocabulary | None
    function: ListCost
    units: Callable[[list[int]], list[Any]] | None = None  # what the function sees instead of token numbers
    asks_host: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_vocab("from_callable", self.vocab)
        if not callable(self.function):
            raise SearnnError(f"from_callable got {self.function!r}, expected a function(output, target) -> number")

    def __call__(self, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B *N"]:
        vocab = bound("from_callable", self.vocab)
        truths = strip(targets, vocab)
        lists = strip(outputs.flatten(0, -2), vocab)
        per_example = len(lists) // max(len(truths), 1)
        known: dict[tuple[int, tuple[int, ...]], float] = {}
        costs: list[float] = []
        for row, output in enumerate(lists):
            example = row // per_example
            key = (example, tuple(output))
            if key not in known:
                known[key] = self._number(output, truths[example])
            costs.append(known[key])
        return torch.tensor(costs, device=outputs.device).view(outputs.shape[:-1])

    def _number(self, output: list[Any], target: list[Any]) -> float:
        """What the function says, checked; it gets copies, so that it cannot change what others see."""
        if self.units is not None:
            output, target = self.units(output), self.units(target)
        name = getattr(self.function, "__qualname__", None) or repr(self.function)
        pair = f"output {output} and target {target}"
        try:
            result = self.function(list(output), list(target))
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise SearnnError(f"the cost {name} failed on {pair}: {reason}") from error
        try:
            number = math.nan if isinstance(result, (str, bytes)) else float(result)
        except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor of several numbers
            number = math.nan
        if not math.isfinite(number):
            given = " ".join(repr(result).split())
            raise SearnnError(f"the cost {name} gave {given} on {pair}: it must return one finite number")
        return number


def from_callable(
    function: ListCost, vocab: Vocabulary | None = None, units: Callable[[list[int]], list[Any]] | None = None
) -> CallableCost:
    """`function(output, target) -> number` on token lists as a cost: 0 is perfect, lower is better.

    With `units` the function sees what that makes of the token numbers, such as words.
    """
    return CallableCost(vocab, function, units)
