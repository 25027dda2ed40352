"""All outputs of one example, one by one: what expectations over sampled outputs are compared with."""

import itertools

import torch
from cases import make_batch, make_model, rng
from naive import COSTS, strip

from searnn import Vocabulary
from searnn.models.transformer import Transformer

SMALL_KNOWN = Vocabulary(size=3, pad=3, bos=4, eos=None)
SMALL_FREE = Vocabulary(size=3, pad=3, bos=4, eos=1)
SMALL_INSIDE = Vocabulary(size=5, pad=0, bos=1, eos=2)
VOCABS = {"known": SMALL_KNOWN, "free": SMALL_FREE, "inside": SMALL_INSIDE}
MODELS = {
    "gru": {"width": 3},
    "attention": {"width": 3, "attention": "additive", "bidirectional": True},
    "transformer": {"width": 4, "model": Transformer, "heads": 2, "layers": 1, "spread": 2.0},
}


def tiny(vocab, model="gru", seed=3, length=2):
    """A model and one example with so few outputs that all can be looked at."""
    settings = {"spread": 1.5, **MODELS[model]}
    return make_model(vocab, seed=seed, **settings), make_batch(vocab, lengths=(length,), seed=seed)


def every_output(vocab, limit):
    """Each output as a list: EOS or the last cell ends it."""
    if vocab.eos is None:
        return [list(tokens) for tokens in itertools.product(vocab.choosable, repeat=limit)]
    words = [token for token in vocab.choosable if token != vocab.eos]
    ended = [[*tokens, vocab.eos] for size in range(limit) for tokens in itertools.product(words, repeat=size)]
    return ended + [list(tokens) for tokens in itertools.product(words, repeat=limit)]


def padded(tokens, batch):
    """As the library writes it, `[1, 1, T]`."""
    width = batch.targets.shape[1]
    return torch.tensor([[tokens + [batch.vocab.pad] * (width - len(tokens))]])


def cell_log_probs(model, batch, tokens):
    """The log-probability of each token, with gradient, one step after the other."""
    memory, vocab = model.encode(batch.inputs), model.vocab
    state, last, found = model.start(memory), vocab.bos, []
    for token in tokens:
        scores, state = model.step(memory, state, torch.tensor([[last]]))
        chosen = scores[0, 0, list(vocab.choosable)].log_softmax(0)
        found.append(chosen[vocab.choosable.index(token)])
        last = token
    return torch.stack(found)


def naive_cost(name, tokens, batch):
    vocab = batch.vocab
    return COSTS[name](strip(tokens, vocab), strip(batch.targets[0].tolist(), vocab))


def gradient(model, loss):
    """All of it as one vector; a parameter that has none counts as 0."""
    parameters = list(model.parameters())
    parts = torch.autograd.grad(loss, parameters, retain_graph=True, materialize_grads=True)
    return torch.cat([part.flatten() for part in parts])


class Everything:
    """All outputs with their probabilities (with gradient) and costs; `value` is the expected cost."""

    def __init__(self, model, batch, cost):
        self.outputs = every_output(model.vocab, int(batch.lengths[0]))
        log_probs = [cell_log_probs(model, batch, tokens) for tokens in self.outputs]
        self.lengths = [len(tokens) for tokens in self.outputs]
        self.log_probs = torch.stack([each.sum() for each in log_probs])
        self.probs = self.log_probs.exp()
        self.costs = torch.tensor([naive_cost(cost, tokens, batch) for tokens in self.outputs], dtype=torch.float64)
        self.value = (self.probs * self.costs).sum()
        torch.testing.assert_close(self.probs.sum().item(), 1.0)


def forced(monkeypatch, *outputs):
    """Have these outputs drawn, `[B, R, T]` together, whatever the model thinks of them."""
    from searnn.algorithms.common import paths

    together = torch.cat(outputs, dim=1)
    monkeypatch.setattr(paths, "draw", lambda *given, **more: together)


def run(algorithm, model, batch, seed=0):
    return algorithm(model, batch, rng(seed))
