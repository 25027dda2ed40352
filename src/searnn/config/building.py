"""From a resolved configuration to the objects that train: the only place that knows both."""

from __future__ import annotations

from dataclasses import dataclass, fields
from inspect import isclass
from typing import Any

from searnn import rng, schedules
from searnn.algorithms import Mle, Searnn
from searnn.config import recipes, registry
from searnn.config.kinds import split_tokens
from searnn.config.schema import Config
from searnn.costs import from_callable
from searnn.interfaces import Algorithm, Cost, Oracle, Policy, Task, TokenSampler
from searnn.models import EncoderDecoder
from searnn.policies import Learned, Reference
from searnn.samplers import union
from searnn.training import TrainingSettings
from searnn.types import Vocabulary

MIB = 2**20


@dataclass(frozen=True)
class Built:
    """Everything that a training run needs."""

    task: Task
    model: EncoderDecoder
    algorithm: Algorithm
    cost: Cost
    settings: TrainingSettings


def build(config: Config) -> Built:
    """The objects of a resolved configuration."""
    task = make_task(config)
    cost = make_cost(config, task.vocab)
    return Built(task, make_model(config, task), make_algorithm(config, cost), cost, make_settings(config))


def make_task(config: Config) -> Task:
    """The task, its data found, read and checked."""
    values = {name: value for name, value in config.task.model_dump().items() if value is not None}
    name = values.pop("name")
    renamed = {"data": "path", "data_seed": "seed"}
    return registry.make("task", name, **{renamed.get(key, key): value for key, value in values.items()})  # type: ignore[no-any-return]


def make_model(config: Config, task: Task) -> EncoderDecoder:
    """The model with its first weights, which the seed alone decides."""
    init = rng.generator(config.run.seed or 0, "init")
    settings: dict[str, Any] = config.model.model_dump()
    return EncoderDecoder(task.vocab, features=task.features, source_size=task.source_size, **settings, rng=init)


def make_cost(config: Config, vocab: Vocabulary) -> Cost:
    """The cost of the search; where nothing is searched, the task's own, for the diagnostics."""
    values = config.flat()
    name = values["cost"] or recipes.default("cost", values)
    normalised = values["normalised_cost"]
    if normalised is None:
        normalised = recipes.default("normalised_cost", {**values, "cost": name})
    found = registry.find("cost", name)
    if isclass(found):
        return registry.make("cost", name, vocab=vocab, normalised=normalised)  # type: ignore[no-any-return]
    registry.check_cost_function(name, found)
    return from_callable(found, vocab)


def make_algorithm(config: Config, cost: Cost) -> Algorithm:
    """MLE, or SEARNN with its policies, samplers and loss."""
    values = config.flat()
    if values["algorithm"] == "mle":
        return Mle(label_smoothing=values["label_smoothing"], normalisation=values["normalisation"])
    given: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
    return Searnn(
        roll_in=make_roll_in(given),
        roll_out=make_roll_out(given),
        cost=cost,
        loss=registry.make("loss", given["loss"], **_only(given, "alpha", "ties")),
        tokens=make_tokens(given),
        cells=registry.make("cells", given["cells"], **({"n": given["n_cells"]} if "n_cells" in given else {})),
        normalisation=given["normalisation"],
        classifier=given["classifier"],
    )


def make_roll_in(given: dict[str, Any]) -> Policy:
    """The policy that makes the prefix; each member takes those arguments that it knows."""
    arguments: dict[str, Any] = {"reference": _reference(given), "oracle": _oracle(given)}
    if "roll_in_reference_probability" in given:
        arguments["reference_probability"] = _scheduled(given["roll_in_reference_probability"])
    if "roll_in_mix_per" in given:
        arguments["per"] = given["roll_in_mix_per"]
    if "temperature" in given:
        arguments["temperature"] = given["temperature"]
    return registry.make("roll_in", given["roll_in"], **arguments)  # type: ignore[no-any-return]


def make_roll_out(given: dict[str, Any]) -> Policy:
    """The policy that ends the outputs."""
    budget = given.get("budget", "auto")
    learned = {"beam": given.get("roll_out_beam", 1), "budget": None if budget == "auto" else budget * MIB}
    arguments: dict[str, Any] = {"reference": _reference(given), "oracle": _oracle(given)}
    arguments["learned"] = Learned(**learned)
    if "reference_probability" in given:
        arguments["reference_probability"] = _scheduled(given["reference_probability"])
    if "mix_per" in given:
        arguments["per"] = given["mix_per"]
    if "focus_steps" in given:
        arguments["steps"] = _scheduled(given["focus_steps"])
    return registry.make("roll_out", given["roll_out"], **arguments, **learned)  # type: ignore[no-any-return]


def make_tokens(given: dict[str, Any]) -> TokenSampler:
    """The candidates: one sampler, or several joined."""
    members = []
    for name, number in split_tokens(given["tokens"]):
        arguments = _only(given, "boost", "threshold")
        k = number if number is not None else given.get("k")
        members.append(registry.make("tokens", name, **arguments, **({} if k is None else {"k": k})))
    return members[0] if len(members) == 1 else union(*members)


def make_settings(config: Config) -> TrainingSettings:
    """What the training loop reads."""
    values = {name: value for name, value in config.flat().items() if value is not None}
    known: dict[str, Any] = _only(values, *(field.name for field in fields(TrainingSettings)))
    off: dict[str, Any] = {name: None for name, value in known.items() if value == "none"}
    return TrainingSettings(**{**known, **off})


def _only(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _oracle(given: dict[str, Any]) -> Oracle:
    return registry.make("oracle", given.get("oracle", "copy"))  # type: ignore[no-any-return]


def _reference(given: dict[str, Any]) -> Reference:
    return Reference(oracle=_oracle(given))


def _scheduled(value: int | float | str) -> int | float | schedules.Schedule:
    return schedules.parse(value) if isinstance(value, str) else value
