"""When an option applies: one table. An option that does not apply is refused, never ignored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from searnn.config import registry
from searnn.config.kinds import listed, split_tokens
from searnn.config.schema import MethodGroup

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
        chosen = values[setting]  # None where the algorithm makes no use of this axis
        return chosen is not None and any(registry.takes(axis, chosen, argument) for argument in arguments)

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
    if name is not None and registry.is_own(name):
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
ROLLS_IN, ROLLS_OUT, COSTS = (taken("algorithm", part) for part in ("roll_in", "roll_out", "cost"))
TOKENS, CELLS, LOSS = (taken("algorithm", part) for part in ("tokens", "cells", "loss"))
ASKS = taken("algorithm", "oracle")
HAS_ORACLE = taken("algorithm", "oracle", "roll_in", "roll_out")
OUT_REFERS = taken("roll_out", "oracle", "reference")
REFERS = Rule(
    lambda values: ASKS.holds(values) or _rolls_in_by_oracle(values) or OUT_REFERS.holds(values),
    f"--roll-in mixed with --roll-in-mix-per token, or {OUT_REFERS.words}",
)
REFERENCE_CHANCE = taken("roll_out", "reference_probability")
TOSSES = Rule(
    lambda values: (
        registry.takes("algorithm", values["algorithm"], "reference_probability") or REFERENCE_CHANCE.holds(values)
    ),
    f"{REFERENCE_CHANCE.words}, or {taken('algorithm', 'reference_probability').words}",
)
WEIGHED = Rule(lambda values: values["cost_weighted"] is not False, "--cost-weighted")
IN_EDITS = ("raml", "ocd")  # they count edits, whatever the cost is divided by
HAS_CROSS_ENTROPY = Rule(lambda values: values["cross_entropy_weight"] != 0, "--cross-entropy-weight")
DIVIDES = Rule(lambda values: values["algorithm"] not in IN_EDITS, "algorithms other than raml and ocd")
LEARNS_MORE = Rule(lambda values: values["algorithm"] != "mle", "algorithms other than mle")
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
    "benchmark": (taken("task", "benchmark"), PUBLIC),
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
    **{name: (taken("algorithm", name),) for name in MethodGroup.model_fields if name != "algorithm"},
    "label_smoothing": (taken("algorithm", "label_smoothing"), HAS_CROSS_ENTROPY),
    "roll_in": (ROLLS_IN,),
    "roll_in_reference_probability": (ROLLS_IN, taken("roll_in", "reference_probability")),
    "roll_in_mix_per": (ROLLS_IN, taken("roll_in", "per")),
    "temperature": (ROLLS_IN, taken("roll_in", "temperature")),
    "roll_out": (ROLLS_OUT,),
    "reference_probability": (taken("algorithm", "roll_out", "reference_probability"), TOSSES),
    "mix_per": (ROLLS_OUT, taken("roll_out", "per")),
    "focus_steps": (ROLLS_OUT, taken("roll_out", "steps")),
    "roll_out_beam": (ROLLS_OUT, taken("roll_out", "beam", "learned")),
    "oracle": (HAS_ORACLE, REFERS),
    "cost": (COSTS, WEIGHED),
    "normalised_cost": (COSTS, WEIGHED, DIVIDES, taken("cost", "normalised")),
    "bleu": (taken("algorithm", "cost", "oracle", "roll_out"), BLEU),
    "measure": (HAS_ORACLE, REFERS, taken("oracle", "measure")),
    "tokens": (TOKENS,),
    "k": (TOKENS, K),
    "boost": (TOKENS, sampled("boost")),
    "threshold": (TOKENS, sampled("threshold")),
    "cells": (CELLS,),
    "n_cells": (CELLS, taken("cells", "n")),
    "budget": (ROLLS_OUT, taken("roll_out", "budget", "learned")),
    "loss": (LOSS,),
    "alpha": (LOSS, taken("loss", "alpha")),
    "ties": (LOSS, taken("loss", "ties")),
    "normalisation": (taken("algorithm", "normalisation"),),
    "classifier": (taken("algorithm", "classifier"),),
    "warm_up": (LEARNS_MORE,),
    "warm_up_lr": (Rule(lambda values: bool(values["warm_up"]), "--warm-up"),),
    "momentum": (choice("optimizer", "sgd"),),
    "min_lr": (choice("schedule", "plateau", "linear", "cosine"),),
    "plateau_factor": (choice("schedule", "plateau"),),
    "plateau_patience": (choice("schedule", "plateau"),),
    "metric": (taken("task", "metric"),),
}


def obstacle(name: str, values: Values) -> str | None:
    """The words of the first rule that keeps a setting from applying, or None where it applies."""
    return next((rule.words for rule in APPLIES.get(name, ()) if not rule.holds(values)), None)
