"""How many cells an output may take: a line over the length of its source, fitted to the training data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from searnn import sealed
from searnn.data.lines import LONGEST
from searnn.files import replace_file
from searnn.types import SearnnError

NAME = "room.json"


@dataclass(frozen=True)
class Room:
    """`per_unit` cells for each unit of the source and `extra` more, EOS among them."""

    per_unit: float
    extra: int = 5

    def __post_init__(self) -> None:
        if not (0 <= self.per_unit < math.inf and isinstance(self.extra, int) and self.extra >= 1):
            raise SearnnError(f"the room is {self.per_unit} cells per unit and {self.extra}: expected 0 and 1 or more")

    def __call__(self, lengths: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
        """The most cells for sources of these lengths."""
        return (lengths * self.per_unit).ceil().long() + self.extra

    @classmethod
    def fit(cls, sources: Int[Tensor, "N"], targets: Int[Tensor, "N"], extra: int = 5) -> Room:
        """Room for 99 of 100 training targets, whose lengths are given with EOS; the rest are rare or wrong."""
        ratios = ((targets - extra).clamp(min=0) / sources).numpy()
        return cls(math.ceil(100 * float(np.quantile(ratios, 0.99, method="higher"))) / 100, extra)

    def save(self, folder: Path) -> None:
        """Write it into a run's folder."""
        replace_file(folder / NAME, f"{sealed.text_of(asdict(self))}\n".encode())

    @classmethod
    def load(cls, folder: Path) -> Room:
        """Read what `save` wrote."""
        path = folder / NAME
        try:
            found = sealed.read(path, Saved)
            return cls(found.per_unit, found.extra)
        except OSError as error:
            raise SearnnError(f"{path} cannot be read ({error.strerror}): {sealed.RESTORE}") from error


class Saved(sealed.Checked):
    """What `room.json` holds, for targets that were lines of files."""

    per_unit: Annotated[float, Field(ge=0, le=LONGEST)]
    extra: Annotated[int, Field(ge=1, le=LONGEST)]
