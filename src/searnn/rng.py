"""Randomness by name: every stream of random numbers is a pure function of one seed and the names of what it is for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from searnn import parts


def derive(seed: int, *names: str | int) -> int:
    """A seed of 63 bits for the stream called `names`."""
    text = "/".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator for the stream called `names`."""
    return torch.Generator(device).manual_seed(derive(seed, *names))


def spawn(rng: torch.Generator, count: int) -> list[torch.Generator]:
    """Independent generators drawn from one: what one of them is used for does not disturb the others."""
    if rng.device.type != "cpu":  # reading seeds back would stop the device
        return [rng] * count
    seeds = torch.randint(2**62, (count,), generator=rng).tolist()
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def uniform(shape: Sequence[int], rng: torch.Generator, device: torch.device) -> Tensor:
    """Numbers in [0, 1), drawn where the generator lives and moved to `device`; the first axis is that of examples.

    For a part of a batch they are those that the whole batch would have there.
    """
    part = parts.current()
    if part is None or shape[0] != len(part.rows):
        return torch.rand(*shape, generator=rng, device=rng.device).to(device, non_blocking=True)
    whole = torch.rand(part.whole, *shape[1:], generator=rng, device=rng.device)
    return whole[part.rows.to(rng.device)].to(device, non_blocking=True)
