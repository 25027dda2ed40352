"""What a page about one example can switch between: the policies and the loss of a run's training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from searnn.algorithms import WarmUp
from searnn.config import Config, recipes, registry, trust
from searnn.config.building import knowledge, make_algorithm, make_cost
from searnn.interfaces import Named, RollIn, RollOut
from searnn.policies import Learned, Mixed, Reference
from searnn.reports.explain import Choices, Start
from searnn.runs.run import Run
from searnn.samplers import AllTokens


def choices_of(run: Run) -> tuple[Choices, Start, list[str]]:
    """What the page offers: the plain policies, and whatever else the run was trained with."""
    config = run.settings_for(*trust.SEARCH)
    values, notes = config.flat(), []
    cost = make_cost(config, run.task)
    algorithm = make_algorithm(config, cost, knowledge(run.task))
    trained = _fields(algorithm.then if isinstance(algorithm, WarmUp) else algorithm)
    reference = _reference(run, config, trained.get("roll_out"), trained.get("roll_in"))
    roll_ins: dict[str, RollIn] = {"reference": reference, "learned": Learned()}
    coin = Mixed(reference, 0.5, per="cell")
    roll_outs: dict[str, RollOut] = {"reference": reference, "learned": Learned(), "mixed": coin}
    shown = {"roll_in": "learned", "roll_out": "mixed"}
    for kind, known in (("roll_in", roll_ins), ("roll_out", roll_outs)):
        policy, name = trained.get(kind), values.get(kind)
        if policy is None or name is None:
            continue
        shown[kind] = name
        if isinstance(policy, Mixed) and kind == "roll_out" and policy.per == "example":
            policy = replace(policy, per="cell")  # one coin would make it the reference's or the model's all over
            notes.append("The mixed roll-out has a coin for each cell here; in training one decides for the example.")
        known[name] = policy
    loss = trained.get("loss")
    name = loss.name if isinstance(loss, Named) else "kl"
    if loss is None:
        notes.append(f"The run was trained by {values['algorithm']}: this is what SEARNN would have seen.")
    elif name not in ("kl", "ll", "reverse-kl", "js"):
        notes.append(f"The run was trained with the loss {name}; the page shows the targets of KL and LL.")
    values["cost"] = values["cost"] or recipes.default("cost", values)
    values["normalised_cost"] = recipes.default("normalised_cost", values)
    alpha = _fields(loss).get("alpha")
    if alpha is None:  # it has none, or it follows from the costs
        alpha = (run.metrics.best or {}).get("train_alpha") or recipes.default("alpha", values)
    tokens = trained.get("tokens")
    start = Start(**shown, loss="ll" if name in ("ll", "llcas", "hinge") else "kl", alpha=float(alpha))
    return Choices(roll_ins, roll_outs, cost, None if isinstance(tokens, AllTokens) else tokens), start, notes


def _fields(thing: object) -> dict[str, Any]:
    """What an algorithm, a policy or a loss was made with, by the names of its arguments."""
    return getattr(thing, "__dict__", {})


def _reference(run: Run, config: Config, *policies: RollIn | RollOut | None) -> Reference:
    """The reference that the run was trained with, or that its task would have."""
    for policy in policies:
        found = policy if isinstance(policy, Reference) else _fields(policy).get("reference")
        if isinstance(found, Reference):
            return found
    values = config.flat()
    cost = values["cost"] or recipes.default("cost", values)
    name = values["oracle"] or recipes.default("oracle", {**values, "cost": cost})
    return Reference(registry.make("oracle", name, **knowledge(run.task)))
