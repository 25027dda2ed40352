"""An explanation as one record of plain lists and words, which the page and the picture are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from searnn.data.sheets import HEIGHT, WIDTH
from searnn.interfaces import Named, Task
from searnn.reports.explain.searching import Choices, Moment, explore
from searnn.reports.naming import END, SPACE, letters, source_names, token_name
from searnn.types import Batch, Inputs, SearnnError

ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
LOSSES = ("kl", "ll")


@dataclass(frozen=True)
class Start:
    """The view that a page opens with and that a picture shows."""

    roll_in: str
    roll_out: str
    loss: str = "kl"
    alpha: float = 3.0


def describe(
    task: Task,
    moments: Sequence[Moment],
    batch: Batch,
    choices: Choices,
    start: Start,
    *,
    title: str,
    stands_in: bool = False,
    notes: Sequence[str] = (),
    at: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Everything there is to show of the one example in `batch`.

    `stands_in` says that the target is the model's own output; `at` is the number of the moment that is shown first.
    """
    if len(batch.targets) != 1:
        raise SearnnError(f"the batch has {len(batch.targets)} examples: one is explained at a time")
    for what, wanted, known in (
        ("roll-in", start.roll_in, list(choices.roll_ins)),
        ("roll-out", start.roll_out, list(choices.roll_outs)),
        ("loss", start.loss, list(LOSSES)),
    ):
        if wanted not in known:
            raise SearnnError(f"the {what} is {wanted!r}, it must be one of {', '.join(known)}")
    found = explore(moments, batch, choices, seed, order=lambda token: _by_name(token_name(task, token)))
    vocab = task.vocab
    truth = [token for token in batch.targets[0].tolist() if token != vocab.pad]
    rolled_in = [one for each in found["rolled_in"] for one in each]
    used = {*truth, *found["tokens"]}
    used.update(token for one in rolled_in for token in one["prefix"])
    used.update(token for out in found["searches"] for row in out["tails"] for tail in row for token in tail)
    inputs = describe_inputs(task, batch)
    source = len(inputs.get("units", inputs.get("letters", ())))
    for one in rolled_in:
        if one["looks"] is not None:
            one["looks"] = [weights[:source] for weights in one["looks"]]
    return {
        "title": title,
        "task": task.name,
        "inputs": inputs,
        "truth": truth,
        "stands_in": stands_in,
        "eos": vocab.eos,
        "names": {token: token_name(task, token) for token in sorted(used)},
        "cost": choices.cost.name if isinstance(choices.cost, Named) else type(choices.cost).__name__,
        "moments": [{"name": moment.name, "step": moment.step} for moment in moments],
        "roll_ins": list(choices.roll_ins),
        "roll_outs": list(choices.roll_outs),
        "losses": list(LOSSES),
        "alphas": sorted({*ALPHAS, start.alpha}),
        "start": {
            "moment": len(moments) - 1 if at is None else at,
            "roll_in": list(choices.roll_ins).index(start.roll_in),
            "roll_out": list(choices.roll_outs).index(start.roll_out),
            "loss": start.loss,
            "alpha": start.alpha,
            "candidates": "shown" if choices.tokens is None else "drawn",
        },
        "notes": list(notes),
        **found,
    }


def _by_name(name: str) -> tuple[bool, bool, int, str]:
    """A key to sort names by: numbers by their size, then words, the end last."""
    number = name.isdecimal()
    return name == END, not number, int(name) if number else 0, name


def describe_inputs(task: Task, batch: Batch) -> dict[str, Any]:
    """The input of one example: its tokens by name, letters as bits, or the number of its vectors."""
    inputs = batch.inputs
    if not isinstance(inputs, Inputs):
        return {"kind": "other"}
    values = inputs.values[0, : int(inputs.lengths[0])]
    if not values.is_floating_point():
        names = source_names(task, values.tolist())
        return {"kind": "tokens", "units": [name if name.strip() else SPACE for name in names]}
    if (bits := letters(values)) is not None:
        return {"kind": "letters", "width": WIDTH, "height": HEIGHT, "letters": bits}
    return {"kind": "vectors", "units": [str(number + 1) for number in range(len(values))]}
