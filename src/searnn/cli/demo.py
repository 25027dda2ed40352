"""`make demo`: MLE and SEARNN on the real OCR data with the same settings and the same number of updates.

Whatever is printed was measured in this run. The settings to change stand at the top.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console

from searnn.cli.main import guarded
from searnn.config import build, from_flags, resolve, write
from searnn.data import store
from searnn.reports.curves import draw_curves
from searnn.reports.progress import ProgressLine
from searnn.reports.rendering import for_terminal
from searnn.runs.opening import load
from searnn.training import evaluate, fit, read_records

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
        folder = FOLDER / name.lower()
        config = resolve(from_flags({"name": "ocr", **SETTINGS, **method}))
        built = build(config)
        folder.mkdir(parents=True)
        write(config, folder / "config.toml")
        watch = ProgressLine(console)
        outcome = fit(built.model, built.algorithm, built.task, built.settings, folder, cost=built.cost, watch=watch)
        if outcome.stopped == "interrupted":
            raise KeyboardInterrupt
        best = load(folder)
        size = built.settings.batch_size
        valid, test = (evaluate(best.model, part(size), best.task) for part in (best.task.valid, best.task.test))
        rows.append(
            {
                "": name,
                "validation error": f"{100 * valid['error']:.2f} %",
                "test error": f"{100 * test['error']:.2f} %",
                "best at update": str(outcome.best_step),
                "seconds per update": f"{outcome.seconds_per_step:.3f}",
            }
        )
        records = read_records(folder / "metrics.jsonl")
        points = [(record["step"], record["valid_error"]) for record in records]
        curves[name] = [(step, 100 * error) for step, error in points if step is not None and error is not None]
    console.print(for_terminal(rows, f"Wrong letters of the best model, after {SETTINGS['steps']} updates each"))
    picture = FOLDER / "curves.png"
    labels = {"across": "updates", "up": "validation error, % of letters", "title": "OCR: MLE and SEARNN"}
    draw_curves(curves, picture, **labels, log=True)
    console.print(f"Learning curves: {picture}", soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(guarded(demo))
