"""An explanation as one record of plain lists and words, which the page and the picture are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from searnn.interfaces import Task
from searnn.reports.explain.naming import END, describe_inputs, token_name
from searnn.reports.explain.searching import ALL_TOKENS, Choices, Moment, explore
from searnn.types import Batch, SearnnError

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
    found = explore(moments, batch, choices, seed)
    vocab = task.vocab
    truth = [token for token in batch.targets[0].tolist() if token != vocab.pad]
    used = {*truth, *found["rows"]}
    used.update(token for each in found["standings"] for standing in each for token in standing["prefix"])
    used.update(token for out in found["searches"] for row in out["tails"] for tail in row for token in tail)
    names = {token: token_name(task, token) for token in sorted(used)}
    if not found["hidden_tokens"] and len(found["rows"]) <= ALL_TOKENS:
        found = _sorted(found, names)
    inputs = describe_inputs(task, batch)
    source = len(inputs.get("units", inputs.get("letters", ())))
    for standing in (standing for each in found["standings"] for standing in each):
        if standing["looks"] is not None:
            standing["looks"] = [row[:source] for row in standing["looks"]]
    return {
        "title": title,
        "task": task.name,
        "inputs": inputs,
        "truth": truth,
        "stands_in": stands_in,
        "eos": vocab.eos,
        "names": names,
        "cost": getattr(choices.cost, "name", type(choices.cost).__name__),
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
        },
        "notes": list(notes),
        **found,
    }


def _sorted(found: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """The rows of a small vocabulary by name, numbers by their size, the end last."""

    def key(place: int) -> tuple[bool, bool, int, str]:
        name = names[found["rows"][place]]
        number = name.isdecimal()
        return name == END, not number, int(name) if number else 0, name

    order = sorted(range(len(found["rows"])), key=key)
    back = {place: number for number, place in enumerate(order)}

    def turned(rows: list[list[Any]]) -> list[list[Any]]:
        return [[row[place] for place in order] for row in rows]

    standings = [
        [
            {
                **standing,
                "logs": turned(standing["logs"]),
                "drawn": standing["drawn"] and [sorted(back[place] for place in row) for row in standing["drawn"]],
            }
            for standing in each
        ]
        for each in found["standings"]
    ]
    searches = [{"costs": turned(out["costs"]), "tails": turned(out["tails"])} for out in found["searches"]]
    rows = [found["rows"][place] for place in order]
    return {**found, "rows": rows, "standings": standings, "searches": searches}
