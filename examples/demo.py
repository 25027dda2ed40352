"""MLE and SEARNN on the real OCR data, with the same settings and the same number of updates.

    python examples/demo.py             # as `make demo`: a few minutes on two cores

Whatever is printed was measured in this run. The settings to change stand at the top.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console

from searnn.cli.program import guarded
from searnn.config import from_flags, resolve
from searnn.data import store
from searnn.reports.curves import draw_curves
from searnn.reports.rendering import for_terminal
from searnn.runs import load
from searnn.runs.start import start

SETTINGS = {"attention": "none", "steps": "2000", "eval_every": "100"}  # the paper's model: small and fast
METHODS = {"MLE": {"algorithm": "mle"}, "SEARNN": {"algorithm": "searnn"}}
FOLDER = Path("runs", "demo")


def demo() -> int:
    """Get the data, train both, show a table and a picture."""
    console = Console()
    console.print("1. The data: handwritten words, letter by letter")
    console.print(f"   {store.get('ocr', progress=lambda line: console.print(f'   {line}'))}", soft_wrap=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    rows, curves = [], {}
    for number, (name, method) in enumerate(METHODS.items(), 2):
        console.print(f"{number}. {name}: {SETTINGS['steps']} updates")
        trained = start(resolve(from_flags({"name": "ocr", **SETTINGS, **method})), FOLDER / name.lower())
        if trained.interrupted:
            raise KeyboardInterrupt
        best = load(trained.folder)
        rows.append(
            {
                "": name,
                "validation error": f"{100 * best.evaluate('valid')['error']:.2f} %",
                "test error": f"{100 * best.evaluate('test')['error']:.2f} %",
                "best at update": str(trained.outcome.best_step),
                "seconds per update": f"{trained.outcome.seconds_per_step:.3f}",
            }
        )
        curves[name] = [(step, 100 * error) for step, error in best.metrics.column("valid_error")]
    console.print(for_terminal(rows, f"Wrong letters of the best model, after {SETTINGS['steps']} updates each"))
    picture = FOLDER / "curves.png"
    labels = {"across": "updates", "up": "validation error, % of letters", "title": "OCR: MLE and SEARNN"}
    draw_curves(curves, picture, **labels, log=True)
    console.print(f"Learning curves: {picture}", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(guarded(demo))
