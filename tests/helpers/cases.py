"""Small random models and batches shared by the tests: known length and free length, ragged, padded."""

import torch

from searnn import Batch, Inputs, Vocabulary
from searnn.models import EncoderDecoder, Ensemble
from searnn.models.transformer import Transformer
from searnn.rng import Shard, ShardGenerator

KNOWN = Vocabulary(size=4, pad=4, bos=5, eos=None)
FREE = Vocabulary(size=5, pad=5, bos=6, eos=0)
INSIDE = Vocabulary(size=6, pad=0, bos=1, eos=2)  # PAD and BOS are scored, and must never be chosen


def ensemble(vocab, **sizes):
    """One of several families."""
    return Ensemble([EncoderDecoder(vocab, cell="lstm", **sizes), Transformer(vocab, heads=2, **sizes)])


SETTINGS = {
    "gru": {},
    "lstm": {"cell": "lstm"},
    "layers": {"layers": 2},
    "lstm-layers": {"cell": "lstm", "layers": 2},
    "two-directions": {"bidirectional": True},
    "lstm-two-directions": {"cell": "lstm", "bidirectional": True, "layers": 2},
    "attention": {"attention": "additive"},
    "attention-two-directions": {"attention": "additive", "bidirectional": True, "layers": 2},
    "lstm-attention": {"attention": "additive", "cell": "lstm"},
    "aligned": {"attention": "aligned"},
    "aligned-two-directions": {"attention": "aligned", "bidirectional": True},
    "lstm-aligned": {"attention": "aligned", "cell": "lstm", "layers": 2},
    "dropout": {"dropout": 0.5},
    "embedding": {"embedding": 3},
    "pixels": {"pixels": True},
    "convolutional": {"encoder": "convolutional", "attention": "additive", "window": 3},
    "lstm-convolutional": {"encoder": "convolutional", "attention": "additive", "cell": "lstm", "layers": 2},
    "pixels-convolutional": {"encoder": "convolutional", "attention": "additive", "pixels": True},
    "transformer": {"model": Transformer, "heads": 2},
    "transformer-pixels": {"model": Transformer, "heads": 3, "layers": 1, "feedforward": 5, "pixels": True},
    "ensemble": {"model": ensemble},
    "transformer-dropout": {"model": Transformer, "heads": 1, "layers": 3, "dropout": 0.5},
}


def make_model(vocab: Vocabulary = KNOWN, seed: int = 0, *, model=EncoderDecoder, pixels=False, spread=4.0, **settings):
    """A float64 model whose scores are spread so that its choices differ from cell to cell."""
    rng = torch.Generator().manual_seed(seed)
    source = {"features": 3} if pixels else {"source_size": 7}
    made = model(vocab, **source, width=settings.pop("width", 6), rng=rng, **settings).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(spread)
    return made


def make_batch(vocab: Vocabulary = KNOWN, lengths=(5, 3, 1), seed: int = 0, *, pixels: bool = False, room: int = 0):
    """Ragged random examples; for a free length each may take `room` cells more than its target has."""
    rng = torch.Generator().manual_seed(seed)
    count, width = len(lengths), max(lengths)
    sources = torch.tensor(lengths)
    words = torch.tensor([token for token in vocab.choosable if token != vocab.eos])
    targets = words[torch.randint(len(words), (count, width), generator=rng)]
    inside = torch.arange(width) < sources.unsqueeze(1)
    targets = torch.where(inside, targets, vocab.pad)
    limits = sources
    if vocab.eos is not None:
        targets = torch.nn.functional.pad(targets, (0, 1 + max(0, room)), value=vocab.pad)
        targets[torch.arange(count), sources] = vocab.eos
        limits = sources + 1 + room
    values = torch.randn(count, width, 3, generator=rng, dtype=torch.float64) if pixels else None
    if values is None:
        values = torch.randint(7, (count, width), generator=rng)
    return Batch(Inputs(values, sources), targets, limits, vocab=vocab)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shard_rng(shard: Shard, seed: int = 0) -> torch.Generator:
    """What `rng(seed)` is for a whole batch, for a shard of it."""
    made = ShardGenerator()
    made.shard = shard
    made.manual_seed(seed)
    return made


def one_example(batch: Batch, example: int) -> Batch:
    """One example alone, without its padding on the source side."""
    length = int(batch.inputs.lengths[example])
    inputs = Inputs(batch.inputs.values[example : example + 1, :length], batch.inputs.lengths[example : example + 1])
    return Batch(inputs, batch.targets[example : example + 1], batch.lengths[example : example + 1], vocab=batch.vocab)


def readings(model, monkeypatch) -> list[tuple[str, bool, bool]]:
    """Grows with each reading of a batch by the model: which it is, whether with gradient, and whether with dropout."""
    calls = []
    for name in ("encode", "trace"):
        real = getattr(model, name)

        def call(*given, name=name, real=real):
            calls.append((name, torch.is_grad_enabled(), model.training))
            return real(*given)

        monkeypatch.setattr(model, name, call)
    return calls


class Untouchable:
    """An oracle that must not be asked."""

    def complete(self, branches, batch):
        raise AssertionError("it was asked")
