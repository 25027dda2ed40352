"""How long one training step takes: SEARNN beside maximum likelihood, on the OCR data, interleaved in one process.

    python benchmarks/step.py [--steps 40] [--threads 2]

A step is the algorithm's loss, backward, clipping and the update. Medians and quartiles over the steps; the ratio is
that of the medians, which holds where absolute times do not.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from searnn import Mle, Searnn
from searnn.costs import Hamming
from searnn.devices import keep_memory
from searnn.losses import KLLoss
from searnn.models import EncoderDecoder
from searnn.policies import Learned, Mixed, Reference
from searnn.rng import generator
from searnn.samplers import TopTokens
from searnn.tasks import Ocr


def main() -> None:
    """Time all methods and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=40, help="timed steps of each method")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    keep_memory()
    task = Ocr()
    data = task.train(args.batch_size, seed=0)
    model = EncoderDecoder(task.vocab, features=128, width=128, rng=generator(0, "init"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    cost, loss = Hamming(), KLLoss(3.0)
    methods = {
        "MLE": Mle(),
        "SEARNN, 26 tokens, learned / learned": Searnn(Learned(), Learned(), cost, loss),
        "SEARNN, 26 tokens, reference / learned": Searnn(Reference(), Learned(), cost, loss),
        "SEARNN, 26 tokens, learned / mixed": Searnn(Learned(), Mixed(), cost, loss),
        "SEARNN, 26 tokens, learned / reference": Searnn(Learned(), Reference(), cost, loss),
        "SEARNN, 5 tokens, learned / learned": Searnn(Learned(), Learned(), cost, loss, tokens=TopTokens(5)),
        "SEARNN, 5 tokens, learned / mixed": Searnn(Learned(), Mixed(), cost, loss, tokens=TopTokens(5)),
    }
    times: dict[str, list[float]] = {name: [] for name in methods}
    for step in range(args.steps + 3):
        batch = data.batch(step)
        for name, algorithm in methods.items():
            began = time.perf_counter()
            optimizer.zero_grad()
            algorithm(model, batch, generator(0, "algorithm", step)).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            if step >= 3:  # the first steps warm up
                times[name].append(1e3 * (time.perf_counter() - began))
    base = statistics.median(times["MLE"])
    setting = f"batch {args.batch_size}, {args.threads} threads, {args.steps} steps each"
    print(f"GRU 128, {setting}, torch {torch.__version__}")
    print("| method | median, ms | quartiles | x MLE |")
    print("| --- | --- | --- | --- |")
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"| {name} | {middle:.1f} | {low:.1f} to {high:.1f} | {middle / base:.2f} |")


if __name__ == "__main__":
    main()
