"""How many arg-maxes of trained models another precision of the search changes.

The validation data is decoded greedily by the kernels in float32, tf32 and bf16. An output is compared with the plain
code's up to the first token that differs, since what follows has another past: the share is that of differing tokens
among those compared. Beside it stand the share of outputs that differ anywhere and the task's metric.

    python benchmarks/precision.py runs/spelling-searnn-1 runs/translation-searnn-1
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

from searnn import load
from searnn.decoding import decode
from searnn.engine import PRECISIONS, Engine, using
from searnn.training import evaluate, find_device
from searnn.training.devices import to_device


def main(words: Sequence[str] | None = None) -> None:
    """One table for all runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--kind", default="auto", help="triton insists on kernels, also through its interpreter")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batches", type=int, help="only so many")
    args = parser.parse_args(words)
    print("| run | precision | tokens compared | changed | outputs changed | metric |")
    print("| --- | --- | --- | --- | --- | --- |")
    for folder in args.runs:
        run = load(folder, device=args.device)
        batches = list(run.task.valid(run.batch_size))[: args.batches]
        plain = outputs(run.model, batches, Engine("plain"), args.device)
        for precision in PRECISIONS:
            engine = Engine(args.kind, precision)
            compared, changed, count = 0, 0, 0
            for one, other in zip(plain, outputs(run.model, batches, engine, args.device), strict=True):
                differs = one != other
                before = differs.cumsum(1) - differs.long() == 0  # up to the first difference, and it
                real = before & ((one != run.task.vocab.pad) | differs)
                compared, changed = compared + int(real.sum()), changed + int((real & differs).sum())
                count += len(one)
            with using(engine):
                found = evaluate(run.model, batches, run.task, device=find_device(args.device))
            shares = f"{changed / compared:.5%} | {changed / count:.3%}"
            print(f"| {folder.name} | {precision} | {compared} | {shares} | {found[run.task.metric]:.5g} |", flush=True)


@torch.no_grad()
def outputs(model, batches, engine, device):  # type: ignore[no-untyped-def]
    """What the model writes for each batch."""
    place = find_device(device)
    dtype = next(model.parameters()).dtype
    with using(engine):
        return [decode(model, to_device(batch, place, dtype)).cpu() for batch in batches]


if __name__ == "__main__":
    main()
