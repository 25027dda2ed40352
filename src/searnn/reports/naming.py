"""Tokens and inputs as a person reads them, and texts as the tokens of an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from searnn.data.sheets import HEIGHT, WIDTH
from searnn.interfaces import HasUnits, NamesSources, ReadsTargets, Task
from searnn.types import SearnnError

END = "<end>"
SPACE = "␣"


def unit(task: Task, token: int) -> str:
    """What an output token stands for."""
    return task.units([token])[0] if isinstance(task, HasUnits) else task.show([token])


def token_name(task: Task, token: int) -> str:
    """An output token as it stands in a picture."""
    return END if token == task.vocab.eos else visible(unit(task, token))


def visible(name: str) -> str:
    """A name in which spaces can be seen."""
    return name.replace(" ", SPACE) if name.strip() else SPACE


def source_names(task: Task, tokens: Sequence[Any]) -> list[str]:
    """The input tokens by name, else their numbers; where a position has several columns, the first names it."""
    if isinstance(task, NamesSources):
        return task.source_units(tokens)
    return [str(token[0] if isinstance(token, list) else token) for token in tokens]


def show_source(task: Task, tokens: Sequence[Any]) -> str:
    """The input tokens as text."""
    return task.show_source(tokens) if isinstance(task, NamesSources) else " ".join(source_names(task, tokens))


def letters(values: Tensor) -> list[str] | None:
    """Vectors that are letters, each as 16 rows of 8 pixels in 32 hexadecimal digits; None where they are none."""
    if values.shape[-1] != HEIGHT * WIDTH:
        return None
    bits = np.packbits((values >= 0.5).cpu().numpy(), axis=1)
    return [row.tobytes().hex() for row in bits]


def read_target(task: Task, text: str) -> list[int]:
    """A true output as tokens."""
    tokens = task.read_target(text) if isinstance(task, ReadsTargets) else _look_up(task, text)
    if not tokens:
        raise SearnnError("--target is empty: give the true output, or leave it out")
    return list(tokens)


def _look_up(task: Task, text: str) -> list[int]:
    """The tokens whose names stand in the text: one after the other, or with spaces between them."""
    names = {task.show([token]): token for token in task.vocab.choosable if token != task.vocab.eos}
    one_letter = all(len(name) == 1 for name in names) and not text.strip().count(" ")
    words = list(text.strip()) if one_letter else text.split()
    unknown = next((word for word in words if word not in names), None)
    if unknown is not None:
        known = list(names)
        some = " ".join(known[:30]) + (" ..." if len(known) > 30 else "")
        raise SearnnError(f"--target has {unknown!r}, the outputs of {task.name} are made of {some}")
    return [names[word] for word in words]
