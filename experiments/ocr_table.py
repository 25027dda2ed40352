"""The OCR column of the paper's Table 1, many runs side by side on one GPU.

Each run is a model of its own with the library's algorithms; its whole step (search, loss, backward, update) is
captured once in a CUDA graph and replayed on a stream of its own, so that a table of runs fills the GPU. Batches are
sorted by length, and the search is planned for the longest word of each rank, so shapes are fixed.

    python experiments/ocr_table.py --steps 20000 --seeds 3 --out results.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from searnn import Batch, Inputs, Mle, Searnn
from searnn.costs import Hamming
from searnn.decoding import decode
from searnn.losses import KLLoss, LogLoss
from searnn.models import EncoderDecoder
from searnn.policies import Learned, Mixed, Reference
from searnn.rng import derive, generator
from searnn.tasks import Ocr
from searnn.tasks.batching import collate

BUDGET = 64 * 2**20


def methods() -> dict[str, object]:
    """The rows of the table by name: loss, roll-in, roll-out."""
    learned = Learned(budget=BUDGET)
    mixed = Mixed(learned=learned)
    cost = Hamming()

    def searnn(loss: object, roll_out: object, roll_in: object = learned) -> Searnn:
        return Searnn(roll_in, roll_out, cost, loss)  # type: ignore[arg-type]

    return {
        "mle": Mle(),
        "ll/learned/mixed": searnn(LogLoss(ties="random"), mixed),
        "ll/learned/learned": searnn(LogLoss(ties="random"), learned),
        "ll-model-ties/learned/mixed": searnn(LogLoss(ties="model"), mixed),
        "ll-model-ties/learned/learned": searnn(LogLoss(ties="model"), learned),
        "ll/reference/learned": searnn(LogLoss(ties="random"), learned, Reference()),
        "kl/learned/mixed": searnn(KLLoss(3.0), mixed),
        "kl/learned/learned": searnn(KLLoss(3.0), learned),
        "kl10/learned/learned": searnn(KLLoss(10.0), learned),
        "kl/learned/reference": searnn(KLLoss(3.0), Reference()),
        "kl/reference/learned": searnn(KLLoss(3.0), learned, Reference()),
    }


class Data:
    """The whole training set on the device, the order of every step, and the lengths that plans may count on."""

    def __init__(self, task: Ocr, seed: int, steps: int, batch_size: int, device: torch.device) -> None:
        examples = task.training
        everything = collate(examples, torch.arange(len(examples)), pad_to=(14, 14))
        self.vocab = task.vocab
        self.values = everything.inputs.values.to(device)
        self.targets = everything.targets.to(device)
        lengths = everything.lengths
        per_epoch = len(examples) // batch_size
        order = torch.cat(
            [
                torch.randperm(len(examples), generator=generator(seed, "data", epoch))[: per_epoch * batch_size]
                for epoch in range(-(-steps // per_epoch))
            ]
        ).view(-1, batch_size)
        ranked = lengths[order].sort(dim=1, descending=True)
        self.most = tuple(ranked.values.amax(0).tolist())
        self.order = order.gather(1, ranked.indices).to(device)
        self.lengths = lengths.to(device)
        self.step = torch.zeros(1, dtype=torch.long, device=device)

    def next(self) -> Batch:
        """The batch of the counter's step; the counter is on the device, so a replay moves on by itself."""
        rows = self.order.index_select(0, self.step).squeeze(0)
        lengths = self.lengths[rows]
        self.step += 1
        inputs = Inputs(self.values[rows], lengths)
        return Batch(inputs, self.targets[rows], lengths, host_lengths=self.most, vocab=self.vocab)


class Run:
    """One model in training."""

    def __init__(self, name: str, seed: int, task: Ocr, args: argparse.Namespace, device: torch.device) -> None:
        self.name, self.seed = name, seed
        algorithm = methods()[name]
        self.model = EncoderDecoder(task.vocab, features=128, width=128, rng=generator(seed, "init")).to(device)
        self.data = Data(task, seed, args.steps + 8, args.batch_size, device)
        self.stream = torch.cuda.Stream()
        rng = torch.Generator(device).manual_seed(derive(seed, "algorithm"))
        parameters = list(self.model.parameters())
        adam = args.optimizer == "adam"
        make = torch.optim.Adam if adam else torch.optim.SGD
        optimizer = make(parameters, lr=args.lr, **({"capturable": True} if adam else {}))

        def step() -> None:
            loss = algorithm(self.model, self.data.next(), rng).loss  # type: ignore[operator]
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 5.0)
            optimizer.step()

        start = {key: value.clone() for key, value in self.model.state_dict().items()}
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                step()
            self.stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            self.graph.register_generator_state(rng)
            with torch.cuda.graph(self.graph, stream=self.stream):
                step()
        torch.cuda.synchronize()
        self.model.load_state_dict(start)
        if adam:
            for state in optimizer.state.values():
                for value in state.values():
                    value.zero_()
        self.data.step.zero_()
        self.curve: list[dict[str, float]] = []

    def replay(self) -> None:
        """One step, without waiting for it."""
        with torch.cuda.stream(self.stream):
            self.graph.replay()


def error(model: EncoderDecoder, batch: Batch) -> float:
    """Wrong letters over letters, by greedy decoding."""
    outputs = decode(model, batch)
    return float(((outputs != batch.targets) & (batch.targets != model.vocab.pad)).sum() / batch.lengths.sum())


def main() -> None:
    """Train all runs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--split", choices=["fold", "words"], default="fold")
    parser.add_argument("--methods", nargs="*", default=list(methods()))
    parser.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd")
    parser.add_argument("--lr", type=float, default=0.5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--every", type=int, default=250)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--out", type=Path, default=Path("ocr_table.json"))
    args = parser.parse_args()
    device = torch.device("cuda")
    task = Ocr(split=args.split)
    held = {
        split: replace(collate(part, torch.arange(len(part)), pad_to=(14, 14)), ids=None).to(device)
        for split, part in {"valid": task.validation, "test": task.testing}.items()
    }
    began = time.perf_counter()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    runs = [Run(name, seed, task, args, device) for name in args.methods for seed in seeds]
    print(f"{len(runs)} runs captured in {time.perf_counter() - began:.0f} s", flush=True)
    began = time.perf_counter()
    for step in range(1, args.steps + 1):
        for run in runs:
            run.replay()
        if step % args.every == 0:
            torch.cuda.synchronize()
            for run in runs:
                scores = {split: 100 * error(run.model, batch) for split, batch in held.items()}
                run.curve.append({"step": step, **scores})
            spent = time.perf_counter() - began
            if step % (10 * args.every) == 0:
                print(f"step {step}: {1e3 * spent / step:.1f} ms a round of {len(runs)}", flush=True)
                save(runs, args, spent / step)
            if spent > 60 * args.minutes:
                break
        elif step % 25 == 0:
            torch.cuda.synchronize()  # keep the queue short
    save(runs, args, (time.perf_counter() - began) / step)
    table(runs)


def save(runs: list[Run], args: argparse.Namespace, seconds: float) -> None:
    """All curves as JSON."""
    settings = {key: str(value) for key, value in vars(args).items()}
    curves = [{"method": run.name, "seed": run.seed, "curve": run.curve} for run in runs]
    args.out.write_text(json.dumps({"settings": settings, "seconds_per_round": seconds, "runs": curves}))


def table(runs: list[Run]) -> None:
    """Test error at the best validation error, and at the end: mean and spread over the seeds."""
    print(f"{'method':32} {'test at best valid':>24} {'test at end':>22} {'best step':>10}")
    for name in dict.fromkeys(run.name for run in runs):
        best = [min(run.curve, key=lambda point: point["valid"]) for run in runs if run.name == name]
        chosen = [point["test"] for point in best]
        last = [run.curve[-1]["test"] for run in runs if run.name == name]
        steps = statistics.mean(point["step"] for point in best)
        print(f"{name:32} {mean_spread(chosen):>24} {mean_spread(last):>22} {steps:10.0f}")


def mean_spread(values: list[float]) -> str:
    """Mean, smallest and largest."""
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
