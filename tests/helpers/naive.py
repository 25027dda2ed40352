"""Algorithm 1 as a triple loop over examples, cells and tokens, on Python lists: slow, and independent of the engine.

Every score comes from re-running the model from scratch on one example, one token at a time. The measures on
n-grams are counted in lists likewise.
"""

import itertools
import math
from collections import Counter

import torch
from cases import one_example


class Example:
    """One example: its model, its truth as a list, and its room."""

    def __init__(self, model, batch, number):
        self.model, self.batch, self.number = model, one_example(batch, number), number
        self.vocab = model.vocab
        self.limit = int(batch.lengths[number])
        self.truth = strip(batch.targets[number].tolist(), self.vocab)
        self.memory = model.encode(self.batch.inputs)

    def scores(self, prefix):
        """The scores of the next token after `prefix`, from scratch."""
        state = self.model.start(self.memory)
        for token in [self.vocab.bos, *prefix]:
            scores, state = self.model.step(self.memory, state, torch.tensor([[token]]))
        scores = scores[0, 0].tolist()
        return {token: scores[token] for token in self.vocab.choosable}

    def ended(self, tokens):
        return len(tokens) >= self.limit or (self.vocab.eos is not None and self.vocab.eos in tokens)

    def true_token(self, cell):
        if cell < len(self.truth):
            return self.truth[cell]
        return self.vocab.eos

    def greedy(self, tokens, steps=math.inf):
        tokens = list(tokens)
        while not self.ended(tokens) and steps > 0:
            scores = self.scores(tokens)
            tokens.append(max(scores, key=scores.get))
            steps -= 1
        return tokens

    def sampled(self, tokens, draws):
        """One number per cell decides, by the running sum of the probabilities."""
        tokens = list(tokens)
        while not self.ended(tokens):
            scores = self.scores(tokens)
            top = max(scores.values())
            weights = {token: math.exp(score - top) for token, score in scores.items()}
            aim, running = draws[len(tokens)] * sum(weights.values()), 0.0
            for token in sorted(weights):
                running += weights[token]
                if running > aim:
                    break
            tokens.append(token)
        return tokens

    def beam(self, tokens, width, penalty=1.0):
        hypotheses = [(0.0, list(tokens))]
        while not all(self.ended(hypothesis) for _, hypothesis in hypotheses):
            grown = []
            for total, hypothesis in hypotheses:
                if self.ended(hypothesis):
                    grown.append((total, hypothesis))
                    continue
                scores = self.scores(hypothesis)
                norm = math.log(sum(math.exp(score) for score in scores.values()))
                grown += [(total + score - norm, [*hypothesis, token]) for token, score in scores.items()]
            hypotheses = sorted(grown, key=lambda pair: -pair[0])[:width]
        return max(hypotheses, key=lambda pair: pair[0] / max(1, len(pair[1]) - len(tokens)) ** penalty)[1]

    def copy(self, tokens):
        tokens = list(tokens)
        while not self.ended(tokens):
            tokens.append(self.true_token(len(tokens)))
        return tokens

    def optimal(self, tokens):
        """The first best among all suffixes of the truth, by trying them: nearest to the same position first."""
        if self.ended(tokens):
            return list(tokens)
        room = self.limit - len(tokens)
        best = None
        for start in sorted(range(len(self.truth) + 1), key=lambda j: (abs(j - len(tokens)), j)):
            suffix = self.truth[start:]
            if self.vocab.eos is None:
                suffix = (suffix + [self.truth[-1]] * room)[:room]
            else:
                suffix = [*suffix, self.vocab.eos][:room]
            cost = edit(strip([*tokens, *suffix], self.vocab), self.truth)
            if best is None or cost < best[0]:
                best = (cost, [*tokens, *suffix])
        return best[1]


def strip(tokens, vocab):
    """What stands before EOS and PAD."""
    return list(itertools.takewhile(lambda token: token not in (vocab.eos, vocab.pad), tokens))


def edit(left, right):
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        row, before = [i], row
        for j, b in enumerate(right, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b)))
    return row[-1]


def hamming(left, right):
    return sum(a != b for a, b in itertools.zip_longest(left, right))


COSTS = {
    "hamming": hamming,
    "edit": lambda output, truth: edit(output, truth) / max(1, len(truth)),
    "exact": lambda output, truth: float(output != truth),
    "callable": lambda output, truth: 0.25 * abs(len(output) - len(truth)) + 0.5 * (output[:1] != truth[:1]),
}


def grams(words, size):
    return Counter(tuple(words[i : i + size]) for i in range(len(words) - size + 1))


def naive_bleu(output, target, definition, order, unknown):
    if not output:
        return 0.0
    product = 1.0
    for size in range(1, order + 1):
        ours, theirs = grams(output, size), grams(target, size)
        matches = 0
        for gram, count in ours.items():
            if definition != "bahdanau" or unknown not in gram:
                matches += min(count, theirs[gram])
        if definition == "leblond" and size == 1 and matches == 0:
            return 0.0
        more = 0 if definition == "lin-och" and size == 1 else 1
        product *= (matches + more) / (max(0, len(output) - size + 1) + more)
    return product ** (1 / order) * min(1.0, math.exp(1 - max(1, len(target)) / len(output)))


def naive_gleu(output, target, order):
    if not output and not target:
        return 1.0
    ours = sum((grams(output, size) for size in range(1, order + 1)), Counter())
    theirs = sum((grams(target, size) for size in range(1, order + 1)), Counter())
    return (ours & theirs).total() / max(ours.total(), theirs.total())


def all_outputs(example):
    """Every finished output of an example with its log-probability, by trying them all."""
    finished, open_ones = [], [((), 0.0)]
    while open_ones:
        grown = []
        for tokens, total in open_ones:
            if example.ended(tokens):
                finished.append((tokens, total))
                continue
            scores = example.scores(list(tokens))
            norm = torch.tensor(list(scores.values()), dtype=torch.float64).logsumexp(0).item()
            grown += [((*tokens, token), total + score - norm) for token, score in scores.items()]
        open_ones = grown
    return finished
