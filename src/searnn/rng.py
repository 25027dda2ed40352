"""Randomness by name: every stream of random numbers is a pure function of one seed and the names of what it is for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Shard:
    """Shard number `index` of `count` of a batch of `whole` examples: its examples are the `rows`."""

    index: int
    count: int
    whole: int
    rows: Int[Tensor, "N"]


class ShardGenerator(torch.Generator):
    """A generator for one shard of a batch: `uniform` draws for the whole batch, and the shard keeps what is its own.

    So a shard is searched as it would be inside its batch.
    """

    shard: Shard


def derive(seed: int, *names: str | int) -> int:
    """A seed of 63 bits for the stream called `names`."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(
    seed: int, *names: str | int, device: torch.device | str = "cpu", shard: Shard | None = None
) -> torch.Generator:
    """A fresh generator for the stream called `names`, of a whole batch or of one `shard` of it."""
    return _generator(device, derive(seed, *names), shard)


def spawn(rng: torch.Generator, count: int) -> list[torch.Generator]:
    """Independent generators drawn from one: what one of them is used for does not disturb the others."""
    if rng.device.type != "cpu":  # reading seeds back would stop the device
        return [rng] * count
    seeds = torch.randint(2**62, (count,), generator=rng).tolist()
    return [_generator("cpu", seed, shard_of(rng)) for seed in seeds]


def uniform(shape: Sequence[int], rng: torch.Generator, device: torch.device) -> Tensor:
    """Numbers in [0, 1), drawn where the generator lives and moved to `device`; the first axis is that of examples.

    For a shard of a batch they are those that the whole batch would have there.
    """
    shard = shard_of(rng)
    if shard is None or shape[0] != len(shard.rows):
        return torch.rand(*shape, generator=rng, device=rng.device).to(device, non_blocking=True)
    whole = torch.rand(shard.whole, *shape[1:], generator=rng, device=rng.device)
    return whole[shard.rows.to(rng.device)].to(device, non_blocking=True)


def shard_of(rng: torch.Generator) -> Shard | None:
    """The shard that a generator draws for, None where it draws for a whole batch."""
    return rng.shard if isinstance(rng, ShardGenerator) else None


def _generator(device: torch.device | str, seed: int, shard: Shard | None) -> torch.Generator:
    if shard is None:
        return torch.Generator(device).manual_seed(seed)
    drawing = ShardGenerator(device)
    drawing.shard = shard
    drawing.manual_seed(seed)
    return drawing
