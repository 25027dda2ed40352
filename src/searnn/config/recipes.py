"""The defaults: what holds for every task, what was found best for each, and what an algorithm wants else.

A value may be a function of the settings: of those that stand before it as they are, of the rest as they were given (or
None). An algorithm's own numbers have their defaults in its constructor; here stands where a recipe departs from them.
How long a task is trained is what was measured (docs/results.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isclass
from typing import Any

from searnn import schedules
from searnn.config import registry
from searnn.tasks import spelling

COMMON: dict[str, Any] = {
    "level": "chars",
    "min_count": 1,
    "max_vocab": "none",
    "pieces": 8000,
    "max_length": 200,
    "skip_bad_lines": False,
    "data_seed": 0,
    # model
    "model": "gru",
    "attention": "none",
    "width": 128,
    "layers": lambda values: 2 if values["model"] == "transformer" else 1,
    "heads": 4,
    "feedforward": lambda values: 4 * values["width"],
    "window": 5,
    "bidirectional": False,
    "embedding": lambda values: values["width"],
    "dropout": 0.0,
    # method
    "algorithm": "searnn",
    # search: learned roll-in, mixed roll-out with one coin per example, as the paper recommends
    "roll_in": "learned",
    "roll_in_reference_probability": 0.5,
    "roll_in_mix_per": "example",
    "temperature": 1.0,
    "roll_out": "mixed",
    "reference_probability": 0.5,
    "mix_per": "example",
    "focus_steps": 2,
    "roll_out_beam": 1,
    "cost": "edit",
    "normalised_cost": True,
    "oracle": lambda values: {"bleu": "best-suffix", "gleu": "best-suffix"}.get(values["cost"], "copy"),
    "measure": "bleu-1",
    "bleu": "leblond",
    "tokens": "all",
    "k": 5,
    "boost": 0.5,
    "threshold": 0.5,
    "cells": "all",
    "n_cells": 20,
    "budget": "auto",
    # loss
    "loss": "kl",
    "alpha": lambda values: _alpha(values),
    "ties": "model",
    "normalisation": "batch",
    "classifier": "network",
    # optimisation
    "optimizer": "adam",
    "lr": lambda values: 0.5 if values["optimizer"] == "sgd" else 1e-3,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "schedule": "constant",
    "min_lr": 0.0,
    "lr_warmup": 0,
    "plateau_factor": 0.5,
    "plateau_patience": 5,
    "clip": 5.0,
    "average": 0.0,
    "batch_size": 64,
    "accumulate": 1,
    "minutes": "none",
    "steps": lambda values: _unless_timed(values, 20_000),
    "patience": "none",
    "eval_every": 250,
    "keep_every": "none",
    "warm_up": lambda values: _warm_up(values),
    "warm_up_lr": lambda values: values["lr"],
    # run
    "seed": 0,
    "device": "auto",
    "precision": "32-true",
    "engine": "auto",
    "search_precision": "float32",
    "compile": "auto",
    "tensorboard": False,
    "threads": "auto",
}

# The decoder reads the encoder's state at its own position: on validation data far better than the paper's model, a GRU
# without attention trained by SGD with a step of 0.5, whose settings follow from `--attention none`. The cost is the
# number of wrong letters; divided by the word's length it needs an alpha about ten times as large for the same effect.
OCR: dict[str, Any] = {
    "fold": 0,
    "split": "fold",
    "attention": "aligned",
    "bidirectional": lambda values: not _is_papers(values),
    "dropout": lambda values: 0.0 if _is_papers(values) else 0.5,
    "roll_out": lambda values: "mixed" if _is_papers(values) else "learned",
    "cost": "hamming",
    "normalised_cost": lambda values: values["cost"] != "hamming",
    "optimizer": lambda values: "sgd" if _is_papers(values) else "adam",
    "schedule": lambda values: "constant" if _is_papers(values) else _to_the_end(values),
    "steps": lambda values: _unless_timed(values, 9_000),
}

# The paper's attention model for spelling and the loss that was best there at both noise levels.
# A step that falls to nothing is best; where none is known to be the last, the average of the weights stands for it.
# Which text is there decides at first, and is noted: a run is judged by the text that it was trained on.
SPELLING: dict[str, Any] = {
    "benchmark": lambda _: spelling.has_benchmark(),
    "noise": 0.3,
    "windows": False,
    "loss": "ll",
    "attention": "additive",
    "width": 100,
    "bidirectional": True,
    "batch_size": 128,
    "schedule": lambda values: _to_the_end(values),
    "average": lambda values: 0.999 if values["schedule"] == "constant" else 0.0,
    "steps": lambda values: _unless_timed(values, 10_000),
    "eval_every": 500,
}

# The paper's model for translation, which serves other text as well.
READER: dict[str, Any] = {"attention": "additive", "width": 256, "bidirectional": True, "dropout": 0.3}

# The paper's translation runs: reference roll-in, mixed roll-out, the best suffix by BLEU-1 as the reference, 15 top
# tokens and 10 neighbours beside the truth and EOS, 20 cells, KL with alpha 200. The average of the weights is worth
# more than a step that falls.
TRANSLATION: dict[str, Any] = {
    "corpus": "multi30k",
    "direction": "de-en",
    "level": "words",
    "min_count": 2,
    **READER,
    "dropout": lambda values: 0.5 if _is_multi30k(values) and values["model"] == "gru" else 0.3,
    "roll_in": "reference",
    "cost": "bleu",
    "tokens": "top:16+neighbours:11+end",
    "cells": "uniform",
    "normalisation": "cell",
    "schedule": "plateau",
    "min_lr": 1e-5,
    "plateau_patience": 3,
    "average": 0.999,
    "steps": lambda values: _unless_timed(values, {"multi30k": 8_000, "iwslt14": 12_000}.get(values["corpus"], 20_000)),
    "eval_every": 500,
    "metric": lambda values: "error" if values["level"] == "chars" else "bleu",
}

# Labelling: the decoder reads the encoder's state at its own position.
CHUNKING: dict[str, Any] = {
    "attention": "aligned",
    "bidirectional": True,
    "dropout": 0.5,
    "oracle": "chunk-f1",
    "cost": "chunk-f1",
    "loss": "ll",
    "tokens": "top",
    "steps": lambda values: _unless_timed(values, 6_000),
}

# Words have about six phonemes; five candidates at each cell cost a fraction of all forty.
G2P: dict[str, Any] = {
    "stress": False,
    **READER,
    "normalised_cost": False,
    "tokens": "top",
    "batch_size": 128,
    "schedule": "plateau",
    "min_lr": 1e-5,
    "plateau_patience": 2,
    "steps": lambda values: _unless_timed(values, 15_000),
    "eval_every": 1000,
    "metric": "per",
}

# Anything: the number of edits as the cost, which needs no other alpha for longer lines; few candidates at few cells,
# so that long lines and large vocabularies cost no more than they must.
PAIRS: dict[str, Any] = {
    **READER,
    "normalised_cost": False,
    "tokens": "top",
    "cells": "uniform",
    "schedule": "plateau",
    "min_lr": 1e-5,
    "eval_every": 500,
    "metric": lambda values: _judged_by(values["cost"] or "edit", values["target_level"] or values["level"]),
}


def _unless_timed(values: Mapping[str, Any], steps: int) -> int | str:
    """This many updates, where time does not end the training."""
    return steps if values["minutes"] == "none" else "none"


def _is_multi30k(values: Mapping[str, Any]) -> bool:
    """Whether the text is Multi30k: few and short captions, which are soon known by heart."""
    return bool(values["corpus"] == "multi30k")


def _is_papers(values: Mapping[str, Any]) -> bool:
    """Whether it is the paper's model for OCR, which has no attention."""
    return bool(values["attention"] == "none")


def _to_the_end(values: Mapping[str, Any]) -> str:
    """A step size that falls to nothing, where it is known when the training ends: after a number of steps alone."""
    sooner = any(values.get(name) not in (None, "none") for name in ("minutes", "patience"))
    return "constant" if values.get("steps") == "none" or sooner else "cosine"


def _judged_by(cost: str, level: str) -> str:
    """The metric that a cost stands for; a function of the user's own stands for itself."""
    if registry.is_own(cost) and not isclass(registry.find("cost", cost)):
        return cost
    if cost in ("bleu", "gleu") and level != "chars":
        return "bleu"
    return "sequence_error" if cost == "exact" else "error"


# A toy that trains in a minute: short sequences, a small model.
COPY: dict[str, Any] = {
    "symbols": 10,
    "length": 8,
    "examples": 1000,
    "reverse": False,
    "width": 64,
    "batch_size": 32,
    "steps": lambda values: _unless_timed(values, 2_000),
    "eval_every": 100,
}

TASKS: dict[str, dict[str, Any]] = {
    "pairs": PAIRS,
    "ocr": OCR,
    "spelling": SPELLING,
    "translation": TRANSLATION,
    "chunking": CHUNKING,
    "g2p": G2P,
    "copy": COPY,
}


def _updates(values: Mapping[str, Any]) -> int:
    """The number of updates that the training will have, as far as it is known."""
    steps = values.get("steps") or default("steps", {**values, "minutes": values.get("minutes") or "none"})
    return 20_000 if steps == "none" else int(steps)


def _counted_edits(values: Mapping[str, Any]) -> str:
    """The cost that counts edits: those of outputs whose length is known are substitutions."""
    return "hamming" if values["name"] in ("ocr", "chunking") else "edit"


def part(share: float) -> Callable[[Mapping[str, Any]], int]:
    """A share of all updates."""
    return lambda values: max(2, int(share * _updates(values)))


# What an algorithm wants other than the tasks' recipes say, and other than its constructor's defaults: what grows or
# falls while training does so over a share of its updates; where time ends it, they are taken to be 20,000.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "scheduled-sampling": {"sampling_probability": lambda values: f"inverse-sigmoid:{part(1 / 2)(values)}:0:0.5"},
    "searn": {"round_steps": part(1 / 20)},
    "dagger": {"round_steps": part(1 / 40)},
    "aggrevate": {"round_steps": part(1 / 40)},
    "aggrevated": {"roll_in": "sampled"},
    "bandit-lols": {"loss": "consistent"},
    "mixer": {"cross_entropy_cells": lambda values: f"linear:12:0:{part(1 / 2)(values)}"},
    "actor-critic": {"critic_steps": part(1 / 20)},
    "raml": {"cost": lambda values: _counted_edits(values)},
    "ocd": {"cost": lambda values: _counted_edits(values), "roll_in": "sampled"},
}


def by_adam(rate: float) -> dict[str, Any]:
    """Adam with this rate after a warm-up with its usual one, unless another optimiser is asked for."""

    def lr(values: Mapping[str, Any]) -> float:
        return rate if values["optimizer"] == "adam" else float(COMMON["lr"](values))

    return {"optimizer": "adam", "lr": lr, "warm_up_lr": COMMON["lr"]}


def from_random_weights(rate: float) -> dict[str, Any]:
    """This rate where Adam trains a recurrent network that no other run has trained; all else keeps its usual one."""

    def lr(values: Mapping[str, Any]) -> float:
        small = values["model"] == "transformer" or values["init_from"] is not None or values["optimizer"] != "adam"
        return float(COMMON["lr"](values)) if small else rate

    return {"lr": lr, "warm_up_lr": COMMON["lr"]}


# The same for an algorithm on one task: what was found best there on validation data.
# In translation the truth's cross-entropy makes scores that a beam can use; captions gain most from little of it.
# On spelling five tokens that the model draws are as good as all, and on a CPU less than half the time.
# OCR's step of 0.5 destroys what a warm-up has learned where the gradient is an estimate.
TUNED: dict[tuple[str, str], dict[str, Any]] = {
    ("ocr", "mle"): {"schedule": "constant", "average": lambda values: 0.0 if _is_papers(values) else 0.999},
    ("ocr", "actor-critic"): by_adam(1e-3),
    ("ocr", "aggrevated"): by_adam(1e-3),
    ("ocr", "mrt"): by_adam(1e-3),
    ("ocr", "reinforce"): by_adam(3e-4),
    ("ocr", "self-critical"): by_adam(3e-4),
    ("ocr", "mixer"): by_adam(1e-4),
    ("ocr", "bandit-lols"): by_adam(3e-5),
    ("translation", "mle"): {"label_smoothing": 0.1},
    ("translation", "searnn"): {
        "cross_entropy_weight": lambda values: 0.3 if _is_multi30k(values) else 1.0,
        "label_smoothing": 0.1,
    },
    ("spelling", "mle"): {"schedule": "constant", "average": 0.999},
    ("spelling", "searnn"): {**from_random_weights(5e-3), "tokens": "policy"},
    **{
        ("spelling", name): from_random_weights(3e-3)
        for name in ("scheduled-sampling", "searn", "lols", "dagger", "aggrevate", "raml", "ocd")
    },
    ("spelling", "actor-critic"): {"cross_entropy_weight": 0.1, "critic_steps": part(1 / 8)},
    ("translation", "actor-critic"): {"cross_entropy_weight": 0.1},  # its paper's, for a large vocabulary
    ("spelling", "aggrevated"): by_adam(3e-4),
    ("spelling", "mixer"): by_adam(3e-4),
    ("spelling", "reinforce"): by_adam(1e-4),
    ("spelling", "self-critical"): by_adam(1e-4),
    ("spelling", "laso"): by_adam(3e-5),
    ("spelling", "bandit-lols"): by_adam(3e-5),
}

# They learn nothing, or slowly, from random weights.
WARMED_UP = ("bso", "laso", "mixer", "reinforce", "actor-critic", "self-critical", "mrt", "bandit-lols", "aggrevated")


def _warm_up(values: Mapping[str, Any]) -> int:
    """A quarter of the updates by maximum likelihood, where the algorithm needs it and nothing trained is given."""
    if values["algorithm"] not in WARMED_UP or values["init_from"] is not None:
        return 0
    return 2000 if values["steps"] == "none" else int(values["steps"]) // 4


def _alpha(values: Mapping[str, Any]) -> float:
    """The weight of the costs: 3 where one mistake costs 1, more where it costs a part of that.

    Divided by the length a mistake costs about a tenth; on spelling KL was best with 100. The paper has 200 for BLEU.
    """
    if values["cost"] in ("bleu", "gleu"):
        return 200.0
    if values["normalised_cost"] and (values["name"], values["loss"]) == ("spelling", "kl"):
        return 100.0
    return 30.0 if values["normalised_cost"] or values["cost"] == "chunk-f1" else 3.0


def default(name: str, values: Mapping[str, Any]) -> Any:
    """The recipe's value of one setting, given those that stand before it."""
    task, algorithm = values["name"], values.get("algorithm", "")
    recipes = (TUNED.get((task, algorithm), {}), ALGORITHMS.get(algorithm, {}), TASKS.get(task, {}), COMMON)
    for recipe in recipes:
        if name in recipe:
            value = recipe[name]
            return value(values) if callable(value) else value
    return constructors_default(algorithm, name) if algorithm else None


def constructors_default(algorithm: str, name: str) -> Any:
    """What an algorithm takes a number or a word of its own to be, as it is written in a file; None for all else."""
    given = registry.parameters(registry.find("algorithm", algorithm)).get(name)
    value = None if given is None else given.default
    if isinstance(value, schedules.Schedule):
        return schedules.written(value)
    return value if isinstance(value, (bool, int, float, str)) else None
