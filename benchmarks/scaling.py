"""How training scales: measured on the processes of this machine, and computed for many GPUs.

    python benchmarks/scaling.py measure [--steps 20] [--processes 2]
    python benchmarks/scaling.py bytes
    python benchmarks/scaling.py balance
    python benchmarks/scaling.py model [--bandwidth 400] [--across 50] [--latency 5]

`measure` starts torchrun and times the trainer's own step, one CPU thread per process, on random data of the sizes of
`searnn bench`: on one process, on all at once without exchange, and on all together, in turn. `bytes` lists what is
sent per step, `balance` how even the ranks' shares are. `model` computes the efficiency on 8 to 1,024 GPUs;
docs/scaling.md has its formula.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from searnn import Mle, Searnn
from searnn.bench.settings import SETTINGS, Setting, make_model, random_batches
from searnn.data import sharding
from searnn.devices import keep_memory
from searnn.interfaces import Algorithm
from searnn.policies import Learned
from searnn.rng import Shard, generator
from searnn.samplers import TopTokens
from searnn.training import TrainingSettings, World, joined
from searnn.training.learner import Learner
from searnn.types import Batch

WARM_UP = 3
SIZES = (2**10, 2**20, 2**24)  # bytes of the all-reduces that are timed, besides those of the models
PER_NODE = 8

# Milliseconds of a step of SEARNN on one H200 (docs/performance.md) as torchrun has it, and as one process replays it;
# those of the backward pass in it, behind which the exchange of gradients can hide: half of a replayed step of MLE.
STEPS = {"ocr": (8.1, 1.4), "spelling": (12.6, 2.3), "nmt": (33.0, 17.3)}
BACKWARD = {"ocr": 0.26, "spelling": 0.46, "nmt": 2.3}
DRAWN = {"ocr": 1, "spelling": 1, "nmt": 26}  # random numbers per example: a coin, and with nmt one for each cell
SECONDS_PER_DRAW = 3e-9
# Every process looks at the lengths of all examples of a batch to deal them out; the noise of spelling is drawn for
# the whole batch, which every process makes.
SECONDS_PER_EXAMPLE = {"ocr": 5e-8, "spelling": 1e-6, "nmt": 5e-8}
UNEVEN = 0.017  # what the slowest rank has more to do than the mean


@dataclass(frozen=True)
class Fixed:
    """A few random batches, again and again."""

    batches: list[Batch]
    steps_per_epoch: int = 1

    def batch(self, step: int) -> Batch:
        """The batch of a step."""
        return self.batches[step % len(self.batches)]

    def shard(self, step: int, index: int, count: int) -> tuple[Batch, Shard]:
        """A shard of it."""
        batch = self.batch(step)
        shard = sharding.deal(batch.lengths, index, count)
        return sharding.take(batch, shard.rows), shard


def methods() -> dict[str, tuple[Setting, Algorithm]]:
    """What is timed: cheap steps and dear ones."""
    ocr, spelling = SETTINGS["ocr"], SETTINGS["spelling"]
    few = replace(_searnn(spelling), tokens=TopTokens(5))
    return {
        "ocr, MLE": (ocr, Mle()),
        "ocr, SEARNN, all tokens": (ocr, _searnn(ocr)),
        "spelling, MLE": (spelling, Mle()),
        "spelling, SEARNN, 5 tokens": (spelling, few),
    }


def _searnn(setting: Setting) -> Searnn:
    return Searnn(Learned(), Learned(), setting.cost(setting.vocab), setting.loss)


def learner(setting: Setting, algorithm: Algorithm, batch_size: int, world: World) -> Learner:
    """What makes the trainer's own step, on random batches."""
    data = Fixed(random_batches(replace(setting, batch_size=batch_size), 4))
    chosen = TrainingSettings(optimizer="adam", lr=1e-4, batch_size=batch_size, device="cpu")
    return Learner(make_model(setting), algorithm, data, chosen, world, torch.device("cpu"))


def step_times(setting: Setting, algorithm: Algorithm, steps: int, world: World) -> dict[str, list[float]]:
    """Milliseconds of steps in four ways, in turn.

    One process while the others wait; all at once, each for itself; together on a batch for each; together on one.
    """
    size, alone = setting.batch_size, World()
    sizes = {"one": (size, alone), "apart": (size, alone), "weak": (size * world.size, world), "strong": (size, world)}
    learners = {way: learner(setting, algorithm, *given) for way, given in sizes.items()}
    times: dict[str, list[float]] = {way: [] for way in learners}
    for step in range(WARM_UP + steps):
        for way, made in learners.items():
            distributed.barrier()
            began = time.perf_counter()
            if way != "one" or world.first:
                made.update(step, 1e-4)
            times[way].append(1e3 * (time.perf_counter() - began))
    return {way: values[WARM_UP:] for way, values in times.items()}


def all_reduce_times(size: int, repeats: int = 15) -> list[float]:
    """Milliseconds of the sum of so many bytes over all ranks."""
    values = torch.ones(size // 4)
    times = []
    for _ in range(repeats):
        distributed.barrier()
        began = time.perf_counter()
        distributed.all_reduce(values)
        times.append(1e3 * (time.perf_counter() - began))
    return times[WARM_UP:]


def work(steps: int) -> None:
    """What each process does; the first prints the tables."""
    torch.set_num_threads(1)
    keep_memory()
    with joined() as world:
        if world.first:
            print(f"{world.size} processes, one thread each, {steps} steps in turn, torch {torch.__version__}\n")
            print("| step, ms | one | apart | weak | efficiency | exchange alone | strong | efficiency |")
            print("| --- " * 8 + "|", flush=True)
        for name, (setting, algorithm) in methods().items():
            found = step_times(setting, algorithm, steps, world)
            middle = {way: statistics.median(values) for way, values in found.items()}
            weak, strong = middle["one"] / middle["weak"], middle["one"] / middle["strong"] / world.size
            cells = [f"{name}, batch {setting.batch_size}", *(shown(found[way]) for way in ("one", "apart", "weak"))]
            cells += [f"{weak:.0%}", f"{middle['apart'] / middle['weak']:.0%}", shown(found["strong"]), f"{strong:.0%}"]
            if world.first:
                print(f"| {' | '.join(cells)} |", flush=True)
        if world.first:
            print("\n| all-reduce of | ms | GB/s |\n| --- | --- | --- |")
        for size in sorted({*SIZES, *(4 * parameters(setting) for setting in SETTINGS.values())}):
            taken = all_reduce_times(size)
            rate = 2 * (world.size - 1) / world.size * size / statistics.median(taken) / 1e6
            if world.first:
                print(f"| {size:,} bytes | {shown(taken)} | {rate:.2g} |")


def measure(steps: int, processes: int) -> None:
    """Start the processes."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [*launch, str(Path(__file__)), "work", "--steps", str(steps)]
    subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)


def shown(values: list[float]) -> str:
    """The median and the quartiles."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def parameters(setting: Setting) -> int:
    """The number of the model's parameters."""
    return sum(parameter.numel() for parameter in make_model(setting).parameters())


def bytes_sent() -> None:
    """What is sent per step."""
    print("| model | parameters | gradient | sent by each of 2 ranks | of 8 | of 1,024 |\n" + "| --- " * 6 + "|")
    for name, setting in SETTINGS.items():
        count = parameters(setting)
        sent = [f"{2 * (ranks - 1) / ranks * 4 * count / 1e6:.3g} MB" for ranks in (2, 8, 1024)]
        print(f"| {name} | {count:,} | {4 * count / 1e6:.3g} MB | {' | '.join(sent)} |")


def balance(draws: int = 100) -> None:
    """What the slowest rank has more to do than the mean: 64 words of 3 to 14 letters on each, work by the square."""
    lengths = torch.randint(3, 15, (draws, 1024 * 64), generator=generator(0, "balance"))
    print("| ranks | shares at random | dealt out by length |\n| --- | --- | --- |")
    for ranks in (8, 64, 1024):
        found: dict[str, list[float]] = {"random": [], "dealt": []}
        for words in lengths[:, : ranks * 64]:
            dealt = [sharding.deal(words, index, ranks).rows for index in range(ranks)] if ranks <= 64 else None
            order = torch.stack(dealt) if dealt else words.argsort(stable=True).view(64, ranks).T
            for way, given in (("random", words.view(ranks, 64)), ("dealt", words[order])):
                work = (given**2).sum(1).double()
                found[way].append(float(work.max() / work.mean()) - 1)
        print(f"| {ranks:,} | {' | '.join(f'{statistics.mean(values):.1%}' for values in found.values())} |")


def efficiency(name: str, step: float, ranks: int, links: argparse.Namespace) -> float:
    """The model of docs/scaling.md: a step of so many ms on one GPU over one on `ranks` GPUs and as many batches."""
    setting = SETTINGS[name]
    bandwidth = (links.bandwidth if ranks <= PER_NODE else links.across) * 1e9
    latency = 2 * math.ceil(math.log2(ranks)) * links.latency / 1e6
    exchange = 2 * (ranks - 1) / ranks * 4 * parameters(setting) / bandwidth + latency
    hidden = links.overlap * BACKWARD[name] / 1e3
    device = step / 1e3 * (1 + UNEVEN) + max(0.0, exchange - hidden) + latency
    host = ranks * setting.batch_size * (SECONDS_PER_EXAMPLE[name] + DRAWN[name] * SECONDS_PER_DRAW)
    return step / 1e3 / max(device, host)


def model(links: argparse.Namespace) -> None:
    """The computed efficiency, a row for each setting and time of a step."""
    counts = (8, 16, 64, 256, 1024)
    print("| setting | step, ms | " + " | ".join(f"{count:,} GPUs" for count in counts) + " |")
    print("| --- " * (2 + len(counts)) + "|")
    for name, steps in STEPS.items():
        for step in steps:
            found = [f"{efficiency(name, step, count, links):.0%}" for count in counts]
            print(f"| {name}, batch {SETTINGS[name].batch_size} per GPU | {step} | {' | '.join(found)} |")


def main() -> None:
    """Choose what is wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "bytes", "balance", "model", "work"])
    parser.add_argument("--steps", type=int, default=20, help="timed steps of each kind")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--bandwidth", type=float, default=400.0, help="GB/s of the ring among the GPUs of a node")
    parser.add_argument("--across", type=float, default=50.0, help="GB/s of the ring across nodes")
    parser.add_argument("--latency", type=float, default=5.0, help="microseconds of one message")
    parser.add_argument("--overlap", type=float, default=0.8, help="part of backward that communication hides behind")
    chosen = parser.parse_args()
    run: dict[str, Any] = {
        "measure": lambda: measure(chosen.steps, chosen.processes),
        "work": lambda: work(chosen.steps),
        "bytes": bytes_sent,
        "balance": balance,
        "model": lambda: model(chosen),
    }
    run[chosen.what]()


if __name__ == "__main__":
    main()
