"""How long the costs of one output take, beside other libraries on the same pairs, interleaved in one process.

    python benchmarks/costs.py [--repeats 5] [--rows 100]

One thread. BLEU and GLEU: 64 true sentences of 25 words of 22,822, each with `--rows` outputs. Edit distance and
Hamming: 64 lists of 10 letters of 43. Ours take tensors, all pairs at once. The others go pair by pair: NLTK and
rapidfuzz on lists of integers, sacrebleu on text. The slow ones see fewer pairs. Medians over the repeats.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.gleu_score import sentence_gleu
from rapidfuzz.distance import Hamming as FuzzHamming
from rapidfuzz.distance import Levenshtein
from sacrebleu.metrics import BLEU
from torch import Tensor

from searnn.costs.edit_distance import EditDistance
from searnn.costs.gleu import Gleu
from searnn.costs.hamming import Hamming
from searnn.costs.sentence_bleu import SentenceBleu
from searnn.types import Vocabulary

SLOW = 400  # pairs for libraries that take a hundred microseconds or more for each
Lists = list[tuple[list[int], list[int]]]


def near_pairs(vocab: Vocabulary, length: int, rows: int) -> tuple[Tensor, Tensor]:
    """Random targets, and outputs of which seven tokens in ten are right."""
    rng = torch.Generator().manual_seed(0)
    targets = torch.randint(3, vocab.size, (64, length + 1), generator=rng)
    noise = torch.randint(3, vocab.size, (64, rows, length + 1), generator=rng)
    outputs = torch.where(torch.rand(noise.shape, generator=rng) < 0.7, targets.unsqueeze(1), noise)
    outputs[..., -1] = targets[..., -1] = 2
    return outputs, targets


def as_lists(outputs: Tensor, targets: Tensor) -> Lists:
    """The pairs without EOS, in mixed order, so that the first of them stand for all."""
    truths = targets[:, :-1].tolist()
    pairs = [(row, truth) for truth, rows in zip(truths, outputs[..., :-1].tolist(), strict=True) for row in rows]
    return [pairs[i] for i in torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).tolist()]


def each(score: Callable[[list[int], list[int]], object], pairs: Lists) -> None:
    """Score pair by pair."""
    for output, target in pairs:
        score(output, target)


def main() -> None:
    """Time all costs and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100, help="outputs for each of the 64 targets")
    args = parser.parse_args()
    torch.set_num_threads(1)
    words, letters = (Vocabulary(size=size, pad=0, bos=1, eos=2) for size in (22_822, 43))
    sentences, lists = near_pairs(words, 25, args.rows), near_pairs(letters, 10, args.rows)
    word_pairs, letter_pairs = as_lists(*sentences), as_lists(*lists)
    texts = [(" ".join(map(str, row)), [" ".join(map(str, truth))]) for row, truth in word_pairs[:SLOW]]
    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it would advise another setting at every pair
    metric = BLEU(smooth_method="add-k", smooth_value=1, tokenize="none", effective_order=False)
    smooth = SmoothingFunction().method2

    def nltk_bleu(output: list[int], target: list[int]) -> object:
        return sentence_bleu([target], output, smoothing_function=smooth)

    def nltk_gleu(output: list[int], target: list[int]) -> object:
        return sentence_gleu([target], output)

    def sacrebleu() -> None:
        for text, truths in texts:
            metric.sentence_score(text, truths)

    groups: dict[str, list[tuple[str, Callable[[], object], int]]] = {
        "BLEU-4, 25 words": [
            ("searnn", partial(SentenceBleu(words), *sentences), len(word_pairs)),
            ("sacrebleu", sacrebleu, len(texts)),
            ("NLTK", partial(each, nltk_bleu, word_pairs[:SLOW]), min(SLOW, len(word_pairs))),
        ],
        "GLEU, 25 words": [
            ("searnn", partial(Gleu(words), *sentences), len(word_pairs)),
            ("NLTK", partial(each, nltk_gleu, word_pairs[:SLOW]), min(SLOW, len(word_pairs))),
        ],
        "edit distance, 10 letters": [
            ("searnn", partial(EditDistance(letters), *lists), len(letter_pairs)),
            ("rapidfuzz", partial(each, Levenshtein.distance, letter_pairs), len(letter_pairs)),
        ],
        "Hamming, 10 letters": [
            ("searnn", partial(Hamming(letters), *lists), len(letter_pairs)),
            ("rapidfuzz", partial(each, FuzzHamming.distance, letter_pairs), len(letter_pairs)),
        ],
    }
    times: dict[tuple[str, str], list[float]] = {}
    for repeat in range(args.repeats + 1):
        for group, members in groups.items():
            for name, call, pairs in members:
                began = time.perf_counter()
                call()
                if repeat:  # the first warms up
                    times.setdefault((group, name), []).append(1e6 * (time.perf_counter() - began) / pairs)
    print(f"64 x {args.rows} pairs, one thread, {args.repeats} repeats, torch {torch.__version__}")
    print("| cost | library | median, us a pair | least to most | x ours |")
    print("| --- | --- | --- | --- | --- |")
    for (group, name), values in times.items():
        middle, ours = statistics.median(values), statistics.median(times[group, "searnn"])
        spread = f"{min(values):.2f} to {max(values):.2f}"
        print(f"| {group} | {name} | {middle:.2f} | {spread} | {middle / ours:.1f} |")


if __name__ == "__main__":
    main()
