"""When an option applies: one table. An option that does not apply is refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from searnn.config import registry
from searnn.config.kinds import listed, split_tokens

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """A condition on the settings that stand before this one, and the words that say it."""

    holds: Callable[[Values], bool]
    words: str
    of_task: bool = False  # it asks for the task alone, whatever the other settings are


def choice(name: str, *wanted: str) -> Rule:
    """The setting `name` is one of `wanted`."""
    return Rule(lambda values: values[name] in wanted, f"{registry.flag(name)} {listed(wanted)}")


def taken(axis: str, *arguments: str) -> Rule:
    """What is chosen on an axis takes one of these arguments; it holds for the user's own in the same way."""
    names = [name for name in registry.AXES[axis] if any(registry.takes(axis, name, part) for part in arguments)]
    setting, words = ("name", "the task") if axis == "task" else (axis, registry.flag(axis))

    def holds(values: Values) -> bool:
        return any(registry.takes(axis, values[setting], argument) for argument in arguments)

    return Rule(holds, f"{words} {listed(names)}", of_task=axis == "task")


def _levels(values: Values) -> tuple[str, str]:
    """The levels of sources and targets."""
    return values["level"], values["target_level"] or values["level"]


def _needs_k(values: Values) -> bool:
    members = split_tokens(values["tokens"])
    return any(number is None and registry.takes("tokens", name, "k") for name, number in members)


def _rolls_in_by_oracle(values: Values) -> bool:
    """The reference's own roll-in is the truth: only where the model may leave it is there something to ask for."""
    name = values["roll_in"]
    if registry.is_own(name):
        return any(registry.takes("roll_in", name, argument) for argument in ("oracle", "reference"))
    return (name, values["roll_in_mix_per"]) == ("mixed", "token")


def sampled(argument: str) -> Rule:
    """One of the joined samplers takes this argument."""

    def holds(values: Values) -> bool:
        return any(registry.takes("tokens", name, argument) for name, _ in split_tokens(values["tokens"]))

    return Rule(holds, f"--tokens {listed(registry.takers('tokens', argument))}")


OWN = Rule(lambda values: values["train"] is not None, "files of your own, given with --train")
PUBLIC = Rule(lambda values: values["train"] is None, "the public data: leave --train out")
COUNTED = Rule(lambda values: set(_levels(values)) != {"sentencepiece"}, "--level chars or words")
LEARNED = Rule(
    lambda values: (values["corpus"], values["level"]) != ("iwslt14", "words"),
    "a vocabulary that is learned: iwslt14 has word lists of its own",
)
PIECES = Rule(lambda values: "sentencepiece" in _levels(values), "--level or --target-level sentencepiece")
OF_THE_MODEL = (
    "attention", "width", "layers", "heads", "feedforward", "window", "bidirectional", "embedding", "dropout"
)  # fmt: skip
SEARNN = choice("algorithm", "searnn")
MLE = choice("algorithm", "mle")
OUT_REFERS = taken("roll_out", "oracle", "reference")
REFERS = Rule(
    lambda values: _rolls_in_by_oracle(values) or OUT_REFERS.holds(values),
    f"--roll-in mixed with --roll-in-mix-per token, or {OUT_REFERS.words}",
)
COST_BLEU = taken("cost", "definition")
BLEU = Rule(
    lambda values: COST_BLEU.holds(values) or values["measure"] in ("bleu-1", "bleu-4"),
    f"{COST_BLEU.words}, or --measure bleu-1 or bleu-4",
)
K = Rule(_needs_k, f"--tokens {listed(registry.takers('tokens', 'k'))} where the name carries no number of its own")

# The first rule that does not hold is the one that is said. A rule looks only at settings declared earlier.
APPLIES: dict[str, tuple[Rule, ...]] = {
    "fold": (taken("task", "fold"),),
    "split": (taken("task", "split"),),
    "data": (taken("task", "path"),),
    "symbols": (taken("task", "symbols"),),
    "length": (taken("task", "length"),),
    "examples": (taken("task", "examples"),),
    "reverse": (taken("task", "reverse"),),
    "corpus": (taken("task", "corpus"), PUBLIC),
    "direction": (taken("task", "direction"), PUBLIC),
    "train": (taken("task", "train"),),
    "valid": (taken("task", "valid"), OWN),
    "test": (taken("task", "test"), OWN),
    "level": (taken("task", "level"),),
    "target_level": (taken("task", "target_level"),),
    "min_count": (taken("task", "min_count"), COUNTED, LEARNED),
    "max_vocab": (taken("task", "max_vocab"), COUNTED, LEARNED),
    "pieces": (taken("task", "pieces"), PIECES),
    "max_length": (taken("task", "max_length"),),
    "skip_bad_lines": (taken("task", "skip_bad_lines"),),
    "noise": (taken("task", "noise"),),
    "windows": (taken("task", "windows"),),
    "stress": (taken("task", "stress"),),
    "data_seed": (taken("task", "seed"),),
    **{name: (taken("model", name),) for name in OF_THE_MODEL},
    "label_smoothing": (MLE,),
    "roll_in": (SEARNN,),
    "roll_in_reference_probability": (SEARNN, taken("roll_in", "reference_probability")),
    "roll_in_mix_per": (SEARNN, taken("roll_in", "per")),
    "temperature": (SEARNN, taken("roll_in", "temperature")),
    "roll_out": (SEARNN,),
    "reference_probability": (SEARNN, taken("roll_out", "reference_probability")),
    "mix_per": (SEARNN, taken("roll_out", "per")),
    "focus_steps": (SEARNN, taken("roll_out", "steps")),
    "roll_out_beam": (SEARNN, taken("roll_out", "beam", "learned")),
    "oracle": (SEARNN, REFERS),
    "cost": (SEARNN,),
    "normalised_cost": (SEARNN, taken("cost", "normalised")),
    "bleu": (SEARNN, BLEU),
    "measure": (SEARNN, REFERS, taken("oracle", "measure")),
    "tokens": (SEARNN,),
    "k": (SEARNN, K),
    "boost": (SEARNN, sampled("boost")),
    "threshold": (SEARNN, sampled("threshold")),
    "cells": (SEARNN,),
    "n_cells": (SEARNN, taken("cells", "n")),
    "budget": (SEARNN, taken("roll_out", "budget", "learned")),
    "loss": (SEARNN,),
    "alpha": (SEARNN, taken("loss", "alpha")),
    "ties": (SEARNN, taken("loss", "ties")),
    "classifier": (SEARNN,),
    "momentum": (choice("optimizer", "sgd"),),
    "min_lr": (choice("schedule", "plateau", "linear", "cosine"),),
    "plateau_factor": (choice("schedule", "plateau"),),
    "plateau_patience": (choice("schedule", "plateau"),),
    "metric": (taken("task", "metric"),),
}


def obstacle(name: str, values: Values) -> str | None:
    """The words of the first rule that keeps a setting from applying, or None where it applies."""
    return next((rule.words for rule in APPLIES.get(name, ()) if not rule.holds(values)), None)
