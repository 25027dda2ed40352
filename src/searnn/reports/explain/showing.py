"""The explanation as one HTML file that opens without a network, and a still picture of one view, for a paper."""

from __future__ import annotations

import math
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import torch

from searnn.losses.masked import target_log_probs
from searnn.reports.curves import canvas
from searnn.reports.html import asset, self_contained

HERE = "searnn.reports.explain"


def make_page(explanation: Mapping[str, Any]) -> str:
    """The explanation that `describe` made, as a page."""
    return self_contained(
        f"{explanation['title']}: what each token costs",
        asset("body.html", HERE),
        explanation,
        styles=[asset("base.css"), asset("style.css", HERE)],
        scripts=[
            asset("elements.js"),
            *(asset(name, HERE) for name in ("numbers.js", "picture.js", "board.js", "page.js")),
        ],
    )


def targets_of(
    costs: list[list[float]],
    logs: list[list[float]],
    loss: str,
    alpha: float,
    drawn: list[list[int]] | None = None,
) -> list[list[float]]:
    """What each cell is trained towards: the cheapest token (ties by the model), or `softmax(-alpha c)`.

    Of each cell all candidates take part, or those at the places that were `drawn`.
    """
    values, own = torch.tensor([costs], dtype=torch.float64), torch.tensor([logs], dtype=torch.float64)
    counted = torch.full(values.shape, drawn is None)
    for cell, places in enumerate(drawn or ()):
        counted[0, cell, places] = True
    if loss == "kl":
        wanted = target_log_probs(values, counted, alpha).exp() * counted
    else:
        values = values.masked_fill(~counted, torch.inf)
        tied = values == values.amin(-1, keepdim=True)
        wanted = torch.zeros_like(values).scatter(-1, own.masked_fill(~tied, -torch.inf).argmax(-1, keepdim=True), 1.0)
    found: list[list[float]] = wanted[0].tolist()
    return found


def draw(explanation: Mapping[str, Any], kind: str) -> bytes:
    """The view that the page opens with as a picture of this kind, "png" or "svg": costs, targets, the model's own."""
    start, names = explanation["start"], {int(token): name for token, name in explanation["names"].items()}
    rolled_in = explanation["rolled_in"][start["moment"]][start["roll_in"]]
    number = explanation["views"][start["moment"]][start["roll_in"]][start["roll_out"]]
    costs = explanation["searches"][number]["costs"]
    drawn = rolled_in["drawn"] if start["candidates"] == "drawn" else None
    wanted = targets_of(costs, rolled_in["logs"], start["loss"], start["alpha"], drawn)
    rows = [_plain(names[token]) for token in explanation["tokens"]]
    across = [_plain(names[token]) for token in rolled_in["prefix"]]
    width, height = 0.34 * len(across) + 1.3, 0.2 * len(rows) + 1.6
    figure = canvas((3 * width, height), dpi=160)
    loss = f"KL, alpha {start['alpha']:g}" if start["loss"] == "kl" else "LL"
    roll_in = explanation["roll_ins"][start["roll_in"]]
    roll_out = explanation["roll_outs"][start["roll_out"]]
    panels = (
        (f"cost ({explanation['cost']})", costs, "YlOrBr", None),
        (f"target ({loss})", wanted, "Blues", 1.0),
        ("model", [[math.exp(value) for value in row] for row in rolled_in["logs"]], "Blues", 1.0),
    )
    for place, (title, values, colours, most) in enumerate(panels):
        axes = figure.add_subplot(1, 3, place + 1)
        top = max(map(max, costs)) or 1.0 if most is None else most
        image = axes.imshow(list(zip(*values, strict=True)), cmap=colours, vmin=0.0, vmax=top, aspect="auto")
        axes.set_title(title, fontsize=9)
        axes.set_xticks(range(len(across)), across, fontsize=7)
        axes.set_yticks(range(len(rows)), rows, fontsize=7)
        axes.set_xlabel(f"cells: {roll_in} roll-in", fontsize=8)
        if not place:
            axes.set_ylabel(f"tokens: {roll_out} roll-out", fontsize=8)
            for cell, row in enumerate(costs):
                axes.plot(
                    [cell] * row.count(min(row)), [token for token, value in enumerate(row) if value == min(row)],
                    linestyle="none", marker="o", markersize=3, color="tab:blue",
                )  # fmt: skip
        figure.colorbar(image, ax=axes, shrink=0.6).ax.tick_params(labelsize=7)
    figure.suptitle(f"{explanation['title']}, {explanation['moments'][start['moment']]['name']}", fontsize=9)
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "searnn"}):  # text stays text, and bits stay the same
        metadata = {"Date": None} if kind == "svg" else {}
        figure.savefig(content := BytesIO(), format=kind, metadata=metadata)
    return content.getvalue()


def _plain(name: str) -> str:
    """A token's name as matplotlib takes it: dollars would be read as mathematics."""
    return name.replace("$", r"\$")
