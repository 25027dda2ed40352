"""Short runs on the toy tasks, to see that an algorithm learns."""

from __future__ import annotations

from pathlib import Path

from searnn import rng
from searnn.interfaces import Algorithm
from searnn.models import EncoderDecoder
from searnn.tasks import Copy
from searnn.training import TrainingSettings, evaluate, fit


def error_after(algorithm: Algorithm, reverse: bool, folder: Path, steps: int = 400) -> float:
    """The error at the end on test strings it need not have seen, copied or reversed."""
    task = Copy(symbols=5, length=4, examples=2000, seed=1, reverse=reverse)
    init = rng.generator(0, "init")
    model = EncoderDecoder(task.vocab, source_size=task.source_size, width=48, attention="additive", rng=init)
    settings = TrainingSettings(
        optimizer="adam", lr=0.01, schedule="linear", batch_size=32, steps=steps, eval_every=steps, device="cpu"
    )
    fit(model, algorithm, task, settings, folder)
    return evaluate(model, task.test(100), task)["error"]
