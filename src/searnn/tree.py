"""Nested tensors: tuples, named tuples, lists, dictionaries and dataclasses with tensors as leaves.

A model's memory, state and trail are such trees; nothing outside the model looks inside, it only takes rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor


class Constant:
    """A value that belongs to no example and no row: it passes through every operation on the tree as it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


def map_leaves(function: Callable[[Tensor], Tensor], node: Any) -> Any:
    """The same tree with `function` applied to every tensor; what is no tensor stays as it is."""
    if isinstance(node, Tensor):
        return function(node)
    if isinstance(node, tuple) and any("_fields" in vars(kind) for kind in type(node).__mro__):  # a named one
        return type(node)(*(map_leaves(function, child) for child in node))
    if isinstance(node, (list, tuple)):
        return type(node)(map_leaves(function, child) for child in node)
    if isinstance(node, dict):
        return {key: map_leaves(function, child) for key, child in node.items()}
    if is_dataclass(node) and not isinstance(node, type):
        return replace(node, **{name: map_leaves(function, child) for name, child in field_values(node)})
    return node


def field_values(record: Any) -> list[tuple[str, Any]]:
    """The fields that a dataclass is made of, by name; none of what is no dataclass."""
    if not is_dataclass(record) or isinstance(record, type):
        return []
    return [(item.name, getattr(record, item.name)) for item in fields(record) if item.init]


def leaves(node: Any) -> Iterator[Tensor]:
    """Every tensor of the tree, in a fixed order."""
    found: list[Tensor] = []
    map_leaves(lambda leaf: found.append(leaf) or leaf, node)  # type: ignore[func-returns-value]
    return iter(found)


def take_rows(node: Any, index: Int[Tensor, "B R"]) -> Any:
    """Rows `index` of every leaf `[B, R', ...]`: forking, beam reordering and dropping ended rows are this."""
    examples = torch.arange(len(index), device=index.device).unsqueeze(1)

    def take(leaf: Tensor) -> Tensor:  # on a CPU much faster than leaf[examples, index]
        flat = (examples * leaf.shape[1] + index).flatten()
        return leaf.flatten(0, 1).index_select(0, flat).view(*index.shape, *leaf.shape[2:])

    return map_leaves(take, node)


def first_rows(node: Any, count: int) -> Any:
    """The first `count` rows of every leaf, made contiguous: products on strided rows would copy them each time."""
    return map_leaves(lambda leaf: leaf[:, :count].contiguous(), node)


def take_examples(node: Any, index: Int[Tensor, "N"]) -> Any:
    """Examples `index` of every leaf `[B, ...]`."""
    return map_leaves(lambda leaf: leaf.index_select(0, index), node)


def bytes_per_row(node: Any) -> int:
    """How many bytes one row of a state `[B, R, ...]` holds."""
    return sum(leaf[0, 0].numel() * leaf.element_size() for leaf in leaves(node))


def join_rows(nodes: list[Any]) -> Any:
    """Trees of one shape, joined along the row axis of their leaves."""
    columns = [list(leaves(node)) for node in nodes]
    joined = iter([torch.cat(parts, dim=1) for parts in zip(*columns, strict=True)])
    return map_leaves(lambda _: next(joined), nodes[0])


def float_type(node: Any) -> torch.dtype:
    """The floating-point type of the tree's leaves."""
    return next((leaf.dtype for leaf in leaves(node) if leaf.is_floating_point()), torch.get_default_dtype())
