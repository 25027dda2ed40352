"""Tokens and inputs as a person reads them, and texts as the tokens of an output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from searnn.data.lexicon import Lexicon
from searnn.data.sheets import HEIGHT, WIDTH
from searnn.interfaces import Task
from searnn.tasks.translation import tokenise
from searnn.types import Batch, Inputs, SearnnError

END = "<end>"
SPACE = "␣"


def token_name(task: Task, token: int) -> str:
    """An output token as it stands in a picture."""
    if token == task.vocab.eos:
        return END
    units = getattr(task, "units", None)
    name = units([token])[0] if units is not None else task.show([token])
    return name.replace(" ", SPACE) if name.strip() else SPACE


def read_target(task: Task, text: str) -> list[int]:
    """A true output as tokens; a task of the user's own may have a method `read_target` for it."""
    own = getattr(task, "read_target", None)
    if own is not None:
        return list(own(text))
    if isinstance(lexicon := getattr(task, "target", None), Lexicon):
        tokens = lexicon.encode(text.strip() if getattr(task, "tokenised", True) else tokenise(text))
    elif hasattr(task, "lexicon") and text.strip():  # inputs and outputs are made of the same
        tokens = list(task.read(text))  # type: ignore[attr-defined]
    else:
        tokens = _look_up(task, text)
    if not tokens:
        raise SearnnError("--target is empty: give the true output, or leave it out")
    return tokens


def _look_up(task: Task, text: str) -> list[int]:
    """The tokens whose names stand in the text: one after the other, or with spaces between them."""
    names = {task.show([token]): token for token in task.vocab.choosable if token != task.vocab.eos}
    letters = all(len(name) == 1 for name in names) and not text.strip().count(" ")
    words = list(text.strip()) if letters else text.split()
    unknown = next((word for word in words if word not in names), None)
    if unknown is not None:
        known = list(names)
        some = " ".join(known[:30]) + (" ..." if len(known) > 30 else "")
        raise SearnnError(f"--target has {unknown!r}, the outputs of {task.name} are made of {some}")
    return [names[word] for word in words]


def describe_inputs(task: Task, batch: Batch) -> dict[str, Any]:
    """The input of one example: its tokens by name, letters as bits, or the number of its vectors."""
    inputs = batch.inputs
    if not isinstance(inputs, Inputs):
        return {"kind": "other"}
    values = inputs.values[0, : int(inputs.lengths[0])].cpu()
    if values.is_floating_point():
        if values.shape[-1] != HEIGHT * WIDTH:
            return {"kind": "vectors", "units": [str(number + 1) for number in range(len(values))]}
        bits = np.packbits((values >= 0.5).numpy().astype(np.uint8), axis=1)
        return {"kind": "letters", "width": WIDTH, "height": HEIGHT, "letters": [row.tobytes().hex() for row in bits]}
    return {"kind": "tokens", "units": source_names(task, values)}


def source_names(task: Task, values: Tensor) -> Sequence[str]:
    """The input tokens by name; where a position has several columns, the first names it."""
    lexicon = getattr(task, "source", None) or getattr(task, "lexicon", None)
    numbers = [row[0] if isinstance(row, list) else row for row in values.tolist()]
    if not isinstance(lexicon, Lexicon):
        return [str(number) for number in numbers]
    names = [lexicon.units[number].removeprefix("word=") for number in numbers]
    return [name if name.strip() else SPACE for name in names]
