"""When a setting applies: where what is chosen takes it, and on a few conditions more; else it is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from searnn.config import registry
from searnn.config.kinds import split_tokens
from searnn.config.schema import DECLARED, Declared, chooses, chosen
from searnn.settings import listed

Values = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """A condition on the other settings, and the words that say it."""

    holds: Callable[[Values], bool]
    words: str
    of_task: bool = False  # it asks for the task alone, whatever the other settings are


def choice(name: str, *wanted: str) -> Rule:
    """The setting `name` is one of `wanted`."""
    return Rule(lambda values: values[name] in wanted, f"{registry.flag(name)} {listed(wanted)}")


def taken(axis: str, *arguments: str) -> Rule:
    """What is chosen on an axis takes one of these arguments; it holds for the user's own in the same way."""
    names = [name for name in registry.AXES[axis] if any(registry.takes(axis, name, part) for part in arguments)]
    words = "the task" if axis == "task" else registry.flag(axis)

    def holds(values: Values) -> bool:
        members = chosen(axis, {chooses(axis): values[chooses(axis)]})  # none where the algorithm does not use the axis
        return any(registry.takes(axis, name, argument) for name in members for argument in arguments)

    return Rule(holds, f"{words} {listed(names)}", of_task=axis == "task")


def _beam(name: str) -> Rule:
    """The beam of this name has more than one row."""
    return Rule(lambda values: values[name] not in (None, 1), f"{registry.flag(name)} of at least 2")


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


OWN = Rule(lambda values: values["train"] is not None, "files of your own, given with --train")
ENGLISH = Rule(lambda values: values["language"] is None, "the English dictionary: leave --language out")
PUBLIC = Rule(lambda values: values["train"] is None, "the public data: leave --train out")
COUNTED = Rule(lambda values: set(_levels(values)) != {"sentencepiece"}, "--level chars or words")
LEARNED = Rule(
    lambda values: (values["corpus"], values["level"]) != ("iwslt14", "words"),
    "a vocabulary that is learned: iwslt14 has word lists of its own",
)
PIECES = Rule(lambda values: "sentencepiece" in _levels(values), "--level or --target-level sentencepiece")
ASKS = taken("algorithm", "oracle")
OUT_REFERS = taken("roll_out", "oracle", "reference")
REFERS = Rule(
    lambda values: ASKS.holds(values) or _rolls_in_by_oracle(values) or OUT_REFERS.holds(values),
    f"--roll-in mixed with --roll-in-mix-per token, or {OUT_REFERS.words}",
)
REFERENCE_CHANCE = taken("roll_out", "reference_probability")
TOSSES = Rule(
    lambda values: taken("algorithm", "reference_probability").holds(values) or REFERENCE_CHANCE.holds(values),
    f"{REFERENCE_CHANCE.words}, or {taken('algorithm', 'reference_probability').words}",
)
WEIGHED = Rule(lambda values: values["cost_weighted"] is not False, "--cost-weighted")
IN_EDITS = ("raml", "ocd")  # they count edits, whatever the cost is divided by
DIVIDES = Rule(lambda values: values["algorithm"] not in IN_EDITS, "algorithms other than raml and ocd")
HAS_CROSS_ENTROPY = Rule(lambda values: values["cross_entropy_weight"] != 0, "--cross-entropy-weight")
LEARNS_MORE = Rule(lambda values: values["algorithm"] != "mle", "algorithms other than mle")
KEEPS_ENTROPY = Rule(  # bandit-lols has one estimated cost for each example
    lambda values: (values["alpha"], values["algorithm"]) != ("auto", "bandit-lols"),
    "algorithms other than bandit-lols, where it is auto",
)
DROPS = Rule(lambda values: values["dropout"] != 0, "--dropout above 0")
COST_BLEU = taken("cost", "definition")
BLEU = Rule(
    lambda values: COST_BLEU.holds(values) or values["measure"] in ("bleu-1", "bleu-4"),
    f"{COST_BLEU.words}, or --measure bleu-1 or bleu-4",
)
K = Rule(_needs_k, f"--tokens {listed(registry.takers('tokens', 'k'))} where the name carries no number of its own")

OF_AXIS: dict[str, tuple[Rule, ...]] = {  # when there is something to choose, beside what the algorithm takes
    "cost": (WEIGHED,),
    "oracle": (REFERS,),
}
ORACLE = taken("algorithm", "oracle", "roll_in", "roll_out")  # a policy asks one too
IN_PLACE: dict[str, tuple[Rule, ...]] = {  # of settings that several axes share, or that a name may carry
    "reference_probability": (taken("algorithm", "roll_out", "reference_probability"), TOSSES),
    "bleu": (taken("algorithm", "cost", "oracle", "roll_out"), BLEU),
    "k": (taken("algorithm", "tokens"), K),
}
BESIDES: dict[str, tuple[Rule, ...]] = {  # what must hold beside "what is chosen takes it"
    "corpus": (PUBLIC,),
    "benchmark": (PUBLIC,),
    "direction": (PUBLIC,),
    "stress": (ENGLISH,),
    "valid": (OWN,),
    "test": (OWN,),
    "min_count": (COUNTED, LEARNED),
    "max_vocab": (COUNTED, LEARNED),
    "pieces": (PIECES,),
    "label_smoothing": (HAS_CROSS_ENTROPY,),
    "normalised_cost": (DIVIDES,),
    "warm_up": (LEARNS_MORE,),
    "warm_up_lr": (Rule(lambda values: bool(values["warm_up"]), "--warm-up"),),
    "momentum": (choice("optimizer", "sgd"),),
    "softmax": (Rule(lambda values: values["tokens"] not in (None, "all"), "--tokens other than all"),),
    "default_cost": (choice("softmax", "default-cost"),),
    "alpha": (KEEPS_ENTROPY,),
    "target_entropy": (choice("alpha", "auto"),),
    "search_dropout": (DROPS, choice("classifier", "network")),
    "roll_in_length_penalty": (_beam("roll_in_beam"),),
    "roll_out_length_penalty": (_beam("roll_out_beam"),),
    "min_lr": (choice("schedule", "plateau", "linear", "cosine"),),
    "plateau_factor": (choice("schedule", "plateau"),),
    "plateau_patience": (choice("schedule", "plateau"),),
}


def of_axis(axis: str) -> tuple[Rule, ...]:
    """When something is chosen on an axis at all."""
    if axis in ("task", "model", "algorithm"):
        return ()
    return (ORACLE if axis == "oracle" else taken("algorithm", axis), *OF_AXIS.get(axis, ()))


def rules(item: Declared) -> tuple[Rule, ...]:
    """What must hold for a setting to apply."""
    if item.name in IN_PLACE:
        return IN_PLACE[item.name]
    if item.own:
        return (_chosen_own(item),)
    if item.name in registry.AXES:
        return of_axis(item.name)
    owned = (
        rule
        for axis, arguments in item.owners.items()
        if axis
        for rule in (*of_axis(axis), taken(axis, *arguments, *item.inside.get(axis, ())))
    )
    return (*owned, *BESIDES.get(item.name, ()))


def _chosen_own(item: Declared) -> Rule:
    """The user's own part that the setting belongs to is chosen."""
    words = listed([f"{registry.flag(axis)} {name}" for axis, name in item.own])
    own = [(axis, name, chooses(axis)) for axis, name in item.own]
    return Rule(lambda values: any(name in chosen(axis, {key: values[key]}) for axis, name, key in own), words)


APPLIES: dict[str, tuple[Rule, ...]] = {name: rules(item) for name, item in DECLARED.items() if rules(item)}


def obstacle(item: Declared, values: Values) -> str | None:
    """The words of the first rule that keeps a setting from applying, or None where it applies."""
    known = APPLIES.get(item.name, ()) if item.name in DECLARED else rules(item)
    return next((rule.words for rule in known if not rule.holds(values)), None)
