"""Fine-tune an encoder-decoder of Hugging Face's transformers by SEARNN, with edit distance as the cost.

    pip install 'searnn[transformers]'
    python examples/hugging_face.py                 # a tiny random T5; under a minute
    python examples/hugging_face.py --family bart

The model is made from a configuration, so nothing is downloaded. With one that was trained before, say
`T5ForConditionalGeneration.from_pretrained(...)`, leave `vocab` out: `wrap` takes the model's own, and the batches
are made of its tokenizer's ids: `make_examples(tokenizer(sources)["input_ids"], target_ids, model.vocab, cap=64)`.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)

from searnn import Mle, Searnn, Vocabulary
from searnn.costs import EditDistance
from searnn.hf import wrap
from searnn.losses import KLLoss
from searnn.policies import Learned, Mixed
from searnn.samplers import TopTokens, UniformCells
from searnn.tasks import Pairs
from searnn.training import TrainingSettings, evaluate, fit, load_model

WORDS = ["apple", "bread", "cheese", "dough", "eggs", "flour", "ginger", "honey", "lemon", "onion", "pepper", "water"]
SETS = (("train", 1000), ("valid", 100))  # the parts of the data, and how many pairs each has


def made_pairs(path: Path, count: int, seed: int) -> Path:
    """A file of words with a letter missing or doubled, and as they should be."""
    draw = random.Random(seed)
    lines = []
    for word in draw.choices(WORDS, k=count):
        at = draw.randrange(len(word))
        lines.append(f"{word[:at] + draw.choice(['', 2 * word[at]]) + word[at + 1 :]}\t{word}\n")
    path.write_text("".join(lines))
    return path


def tiny(family: str, vocab: Vocabulary, source_size: int, width: int) -> PreTrainedModel:
    """A small random model whose ids are those of the task: its special ids lie behind them."""
    size = max(vocab.embeddings, source_size + 2)
    ids = {"vocab_size": size, "pad_token_id": vocab.pad, "eos_token_id": vocab.eos}
    ids |= {"decoder_start_token_id": vocab.bos, "bos_token_id": None}
    if family == "t5":
        sizes = {"d_model": width, "d_kv": width // 4, "d_ff": 2 * width, "num_layers": 2, "num_heads": 4}
        return T5ForConditionalGeneration(T5Config(**ids, **sizes, dropout_rate=0.0))
    sizes = {"d_model": width, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 2 * width}
    sizes |= {"decoder_ffn_dim": 2 * width, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    return BartForConditionalGeneration(BartConfig(**ids, **sizes, dropout=0.0, max_position_embeddings=64))


def main() -> None:
    """Train by maximum likelihood first, then by SEARNN."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=["t5", "bart"], default="t5", help="the kind of model [t5]")
    parser.add_argument("--first", type=int, default=100, help="updates by maximum likelihood [100]")
    parser.add_argument("--steps", type=int, default=100, help="updates by SEARNN after them [100]")
    parser.add_argument("--width", type=int, default=32, help="width of the model [32]")
    given = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, valid = (made_pairs(folder / f"{part}.tsv", count, seed) for seed, (part, count) in enumerate(SETS))
        task = Pairs([train], [valid])
        torch.manual_seed(0)
        model = wrap(tiny(given.family, task.vocab, task.source_size or 0, given.width), task.vocab)
        searnn = Searnn(
            roll_in=Learned(), roll_out=Mixed(), cost=EditDistance(), loss=KLLoss(alpha=30),
            tokens=TopTokens(4), cells=UniformCells(4),
        )  # fmt: skip
        # `fit` evaluates by free decoding, keeps the best and could resume; a loop of your own does as well.
        for name, algorithm, steps in (("mle", Mle(), given.first), ("searnn", searnn, given.steps)):
            often = max(1, steps // 2)
            settings = TrainingSettings(optimizer="adam", lr=0.003, batch_size=32, steps=steps, eval_every=often)
            fit(model, algorithm, task, settings, folder / name)
            load_model(folder / name / "best", model)
            error = evaluate(model.eval(), task.valid(50), task)["error"]
            print(f"{name:<8} validation error {error:.3f} after {steps} updates")


if __name__ == "__main__":
    main()
