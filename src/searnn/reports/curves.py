"""Pictures of learning curves."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from searnn.files import write
from searnn.types import SearnnError

Curve = Sequence[tuple[int | float, float]]


def draw_curves(
    curves: Mapping[str, Curve], path: Path, *, across: str, up: str, title: str, log: bool = False
) -> None:
    """Write a PNG with one line per curve; `across` and `up` name the axes, `log` makes the upright one logarithmic."""
    figure = canvas((8, 5))
    axes = figure.add_subplot()
    for name, points in curves.items():
        axes.plot([x for x, _ in points], [y for _, y in points], label=name, marker=".")
    axes.set(xlabel=across, ylabel=up, title=title)
    if log and all(y > 0 for points in curves.values() for _, y in points):
        make_log(axes)
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    write(path, as_png(figure))


def canvas(size: tuple[float, float], dpi: int = 120) -> Any:
    """An empty figure, drawn without a display and without touching pyplot's global state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise SearnnError("a picture needs matplotlib: install it with pip install 'searnn[plots]'") from error
    figure = Figure(figsize=size, dpi=dpi, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def as_png(figure: Any) -> bytes:
    """The figure as a file's content."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def make_log(axes: Any) -> None:
    """Make the upright axis logarithmic, with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
