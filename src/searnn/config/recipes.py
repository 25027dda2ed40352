"""The defaults: what holds for every task, what was found best for each, and for an algorithm on one.

A default is a value, or one of the named conditions of `searnn.defaults`. What a member's own numbers are stands in its
constructor, and what an algorithm wants else in its `recipe`; here stands where the recipes depart from them. How long
a task is trained is what was measured (docs/results.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import isclass
from typing import Any

from searnn.config import registry
from searnn.config.schema import DECLARED, LOOP, Declared, chosen
from searnn.defaults import Found, Recipe, Times, decide, share_of_steps, unless_by_time, unless_timed, when
from searnn.interfaces import Advised
from searnn.schedules import Schedule, written
from searnn.settings import Argument, Maker, arguments
from searnn.tasks import spelling

Values = Mapping[str, Any]
LR = when(0.5, 1e-3, optimizer="sgd")
# The weight of the costs: 3 where one mistake costs 1, more where it costs a part of that. Divided by the length a
# mistake costs about a tenth; on spelling KL was best with 100. The paper has 200 for BLEU.
DIVIDED = when(100.0, 30.0, name="spelling", loss="kl")
ALPHA = when(200.0, when(DIVIDED, when(30.0, 3.0, cost="chunk-f1"), normalised_cost=True), cost=("bleu", "gleu"))

COMMON: Recipe = {
    "model": "gru",
    "feedforward": Times("width", 4),
    "embedding": Times("width"),
    "algorithm": "searnn",
    # learned roll-in, mixed roll-out with one coin per example, as the paper recommends
    "roll_in": "learned",
    "roll_out": "mixed",
    "focus_steps": 2,
    "cost": "edit",
    "normalised_cost": True,
    "oracle": when("best-suffix", "copy", cost=("bleu", "gleu")),
    "tokens": "all",
    "k": 5,
    "cells": "all",
    "n_cells": 20,
    "loss": "kl",
    "alpha": ALPHA,
    "optimizer": "adam",
    "lr": LR,
    "steps": unless_timed(20_000),
    "eval_every": unless_by_time(250),
    "warm_up_lr": Times("lr"),
}


def judged_by_cost(values: Values) -> str:
    """The metric that a cost stands for; a function of the user's own stands for itself."""
    cost, level = values["cost"] or "edit", values["target_level"] or values["level"]
    if registry.is_own(cost) and not isclass(registry.find("cost", cost)):
        return str(cost)
    if cost in ("bleu", "gleu") and level != "chars":
        return "bleu"
    return "sequence_error" if cost == "exact" else "error"


def papers(then: Any, otherwise: Any) -> Any:
    """What the paper's model for OCR has, which is without attention, and what the others have."""
    return when(then, otherwise, attention="none")


# A step size that falls to nothing, where it is known when the training ends: after so many steps, or so many minutes.
ONE_LIMIT = when("cosine", when("cosine", "constant", steps="none"), minutes="none")
TO_THE_END = when(ONE_LIMIT, "constant", patience="none")

# The decoder reads the encoder's state at its own position: on validation data far better than the paper's model, a GRU
# without attention trained by SGD with a step of 0.5, whose settings follow from `--attention none`. The cost is the
# number of wrong letters; divided by the word's length it needs an alpha about ten times as large for the same effect.
OCR: Recipe = {
    "attention": "aligned",
    "bidirectional": papers(False, True),
    "dropout": papers(0.0, 0.5),
    "roll_out": papers("mixed", "learned"),
    "cost": "hamming",
    "normalised_cost": when(False, True, cost="hamming"),
    "optimizer": papers("sgd", "adam"),
    "schedule": papers("constant", TO_THE_END),
    "steps": unless_timed(9_000),
}

# The paper's attention model for spelling and the loss that was best there at both noise levels.
# A step that falls to nothing is best; where none is known to be the last, the average of the weights stands for it.
# Which text is there decides at first, and is noted: a run is judged by the text that it was trained on.
SPELLING: Recipe = {
    "benchmark": Found(spelling.has_benchmark),
    "loss": "ll",
    "attention": "additive",
    "width": 100,
    "bidirectional": True,
    "batch_size": 128,
    "schedule": TO_THE_END,
    "average": when(0.999, 0.0, schedule="constant"),
    "steps": unless_timed(10_000),
    "eval_every": unless_by_time(500),
}

# The paper's model for translation, which serves other text as well.
READER: Recipe = {"attention": "additive", "width": 256, "bidirectional": True, "dropout": 0.3}

# The paper's translation runs: reference roll-in, mixed roll-out, the best suffix by BLEU-1 as the reference, 25 tokens
# (15 at the top, the truth among them, and 10 neighbours) and EOS, 20 cells, KL with alpha 200. The average of the
# weights is worth more than a step that falls.
TRANSLATION: Recipe = {
    **READER,
    "dropout": when(0.5, 0.3, corpus="multi30k", model="gru"),
    "roll_in": "reference",
    "cost": "bleu",
    "tokens": "top:15+neighbours:11+end",
    "cells": "uniform",
    "normalisation": "cell",
    "schedule": "plateau",
    "min_lr": 1e-5,
    "plateau_patience": 3,
    "average": 0.999,
    "steps": unless_timed(when(8_000, when(12_000, 20_000, corpus="iwslt14"), corpus="multi30k")),
    "eval_every": unless_by_time(500),
    "metric": when("error", "bleu", level="chars"),
}

# Labelling: the decoder reads the encoder's state at its own position.
CHUNKING: Recipe = {
    "attention": "aligned",
    "bidirectional": True,
    "dropout": 0.5,
    "oracle": "chunk-f1",
    "cost": "chunk-f1",
    "loss": "ll",
    "tokens": "top",
    "steps": unless_timed(6_000),
}

# Anything: the number of edits as the cost, which needs no other alpha for longer lines; few candidates at few cells,
# so that long lines and large vocabularies cost no more than they must. The size, the step and the average were the
# best of those tried on four languages (docs/results/pairs.md); a decay of 0.9999 makes the average span a ninth of the
# updates so far, however many they are.
PAIRS: Recipe = {
    **READER,
    "width": 128,
    "normalised_cost": False,
    "tokens": "top",
    "cells": "uniform",
    "average": 0.9999,
    "steps": unless_timed(10_000),
    "metric": judged_by_cost,
}


def of_language(own: Any, dictionary: Any) -> Any:
    """What pronunciation has for the 800 to 33,000 words of a language, and for the English dictionary."""
    return when(dictionary, own, language=None)


# Words have about six phonemes; five candidates at each cell cost a fraction of all forty. A language has the recipe of
# pairs; the dictionary's 120,000 words gain from more width and from batches of twice the size.
# Syllables of Korean and Khmer are taken apart: 67 letters in place of 1,089, and 66 in place of 621 of 800 words.
G2P: Recipe = {
    **READER,
    "width": of_language(PAIRS["width"], READER["width"]),
    "normalise": when("jamo", when("nfd", "nfc", language="khm"), language="kor"),
    "normalised_cost": False,
    "tokens": "top",
    "batch_size": of_language(64, 128),
    "schedule": of_language("constant", "plateau"),
    "min_lr": 1e-5,
    "plateau_patience": 2,
    "average": of_language(PAIRS["average"], 0.0),
    "steps": of_language(PAIRS["steps"], unless_timed(15_000)),
    "eval_every": unless_by_time(of_language(250, 1000)),
}

# A toy that trains in a minute: short sequences, a small model.
COPY: Recipe = {
    "width": 64,
    "batch_size": 32,
    "steps": unless_timed(2_000),
    "eval_every": unless_by_time(100),
}

TASKS: dict[str, Recipe] = {
    "pairs": PAIRS,
    "ocr": OCR,
    "spelling": SPELLING,
    "translation": TRANSLATION,
    "chunking": CHUNKING,
    "g2p": G2P,
    "copy": COPY,
}


def by_adam(rate: float) -> Recipe:
    """Adam with this rate after a warm-up with its usual one, unless another optimiser is asked for."""
    return {"optimizer": "adam", "lr": when(rate, LR, optimizer="adam"), "warm_up_lr": LR}


def from_random_weights(rate: float) -> Recipe:
    """This rate where Adam trains a recurrent network that no other run has trained; all else keeps its usual one."""
    recurrent = when(rate, LR, init_from=None, optimizer="adam")
    return {"lr": when(LR, recurrent, model="transformer"), "warm_up_lr": LR}


# Of these a recurrent network bears a larger step than Adam's usual one.
BEAR_MORE = ("scheduled-sampling", "searn", "lols", "dagger", "aggrevate", "raml", "ocd")
# Label smoothing and three times the usual step; SEARNN with the smoothed cross-entropy beside its loss.
OF_PAIRS: dict[str, Recipe] = {
    **{name: from_random_weights(3e-3) for name in BEAR_MORE},
    "mle": {**from_random_weights(3e-3), "label_smoothing": 0.1},
    "searnn": {**from_random_weights(3e-3), "cross_entropy_weight": 1.0, "label_smoothing": 0.1},
}
USUAL: Recipe = {"lr": LR, "warm_up_lr": LR, "label_smoothing": 0.0, "cross_entropy_weight": 0.0}

# What was found best for an algorithm on one task, on validation data.
# In translation the truth's cross-entropy makes scores that a beam can use; captions gain most from little of it.
# On spelling five tokens that the model draws are as good as all, and on a CPU less than half the time.
# OCR's step of 0.5 destroys what a warm-up has learned where the gradient is an estimate.
TUNED: dict[tuple[str, str], Recipe] = {
    ("ocr", "mle"): {
        "schedule": "constant",
        "average": papers(0.0, 0.999),
        "label_smoothing": papers(0.0, 0.1),
    },
    ("ocr", "actor-critic"): by_adam(1e-3),
    ("ocr", "aggrevated"): by_adam(1e-3),
    ("ocr", "mrt"): by_adam(1e-3),
    ("ocr", "reinforce"): by_adam(3e-4),
    ("ocr", "self-critical"): by_adam(3e-4),
    ("ocr", "mixer"): by_adam(1e-4),
    ("ocr", "bandit-lols"): by_adam(3e-5),
    ("translation", "mle"): {"label_smoothing": 0.1},
    ("translation", "searnn"): {
        "cross_entropy_weight": when(0.3, 1.0, corpus="multi30k"),
        "label_smoothing": 0.1,
    },
    ("spelling", "mle"): {"schedule": "constant", "average": 0.999},
    ("spelling", "searnn"): {**from_random_weights(5e-3), "tokens": "policy"},
    **{("spelling", name): from_random_weights(3e-3) for name in BEAR_MORE},
    ("spelling", "actor-critic"): {"cross_entropy_weight": 0.1, "critic_steps": share_of_steps(1 / 8)},
    ("translation", "actor-critic"): {"cross_entropy_weight": 0.1},  # its paper's, for a large vocabulary
    ("spelling", "aggrevated"): by_adam(3e-4),
    ("spelling", "mixer"): by_adam(3e-4),
    ("spelling", "reinforce"): by_adam(1e-4),
    ("spelling", "self-critical"): by_adam(1e-4),
    ("spelling", "laso"): by_adam(3e-5),
    ("spelling", "bandit-lols"): by_adam(3e-5),
    **{("pairs", name): recipe for name, recipe in OF_PAIRS.items()},
    **{
        ("g2p", name): {key: of_language(value, USUAL[key]) for key, value in recipe.items()}
        for name, recipe in OF_PAIRS.items()
    },
}


def default(name: str, values: Values, known: Mapping[str, Declared] = DECLARED) -> Any:
    """The recipe's value of one setting, given the others; else the constructor's."""
    task, algorithm = values["name"], None if name == "algorithm" else values["algorithm"]
    recipes = (TUNED.get((task, algorithm or ""), {}), of_algorithm(algorithm), TASKS.get(task, {}), COMMON)
    for recipe in recipes:
        if name in recipe:
            return decide(recipe[name], values)
    return _constructors(known[name], values)


def of_algorithm(name: str | None) -> Recipe:
    """What an algorithm wants other than the tasks' recipes say, and other than its constructor's defaults."""
    found = None if name is None else registry.find("algorithm", name)
    return found.recipe if isinstance(found, Advised) else {}


def _constructors(item: Declared, values: Values) -> Any:
    """What the constructor that takes a setting has, as it is written in a file; first that of what is chosen."""
    for argument in _takers(item, values):
        if not argument.needed:
            return _written(argument.default, item)
    return None


def _takers(item: Declared, values: Values) -> Iterator[Argument]:
    for axis, names in item.owners.items():
        makers: list[Maker] = [*LOOP]
        if axis:
            first = [registry.find(axis, name) for name in chosen(axis, values)]
            makers = [*first, *registry.AXES[axis].values()]
        yield from (known[name] for known in map(arguments, makers) for name in names if name in known)


def _written(value: Any, item: Declared) -> Any:
    """A default of a constructor as a file has it."""
    if isinstance(value, Schedule):
        return written(value)
    if value is None:
        return item.setting.none or None
    return value if isinstance(value, (bool, int, float, str)) else None
