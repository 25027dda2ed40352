"""From a resolved configuration to the objects that train: the only place that knows both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from inspect import isclass
from pathlib import Path
from typing import Any

from torch import nn

from searnn import rng, schedules
from searnn.algorithms import Mle, WarmUp
from searnn.config import recipes, registry
from searnn.config.kinds import split_tokens
from searnn.config.schema import Config
from searnn.costs import from_callable
from searnn.data.store import Progress
from searnn.interfaces import Algorithm, CellSampler, Cost, Loss, Oracle, RollIn, RollOut, Task, TokenSampler
from searnn.policies import Learned, Reference
from searnn.samplers import union
from searnn.training import TrainingSettings
from searnn.types import SearnnError

MIB = 2**20


@dataclass(frozen=True)
class Built:
    """Everything that a training run needs."""

    task: Task
    model: nn.Module
    algorithm: Algorithm
    cost: Cost
    settings: TrainingSettings


def build(config: Config, text: Path | None = None, progress: Progress | None = None) -> Built:
    """The objects of a resolved configuration; `text` and `progress` are those of `make_task`."""
    task = make_task(config, text, progress)
    check_task(config, task)
    cost = make_cost(config, task)
    algorithm = make_algorithm(config, cost, knowledge(task))
    return Built(task, make_model(config, task), algorithm, cost, make_settings(config))


def make_task(config: Config, text: Path | None = None, progress: Progress | None = None) -> Task:
    """The task, its data found; `text` is the folder of what a trained run has learned of its data."""
    values = {name: value for name, value in config.task.model_dump().items() if value not in (None, "none")}
    name = values.pop("name")
    renamed = {"data": "path", "data_seed": "seed"}
    arguments = {renamed.get(key, key): value for key, value in values.items()}
    metric = config.optimisation.metric
    if metric is not None and registry.is_own(metric):
        arguments["measure"] = registry.imported("metric", metric)
        registry.check_cost_function("metric", metric, arguments["measure"])
    elif metric is not None:
        arguments["metric"] = metric
    if text is not None and "text" in registry.parameters(registry.find("task", name)):
        if not text.is_dir():
            raise SearnnError(f"there is no folder {text}, which holds the run's vocabulary: restore it, or train anew")
        arguments["text"] = text
    if progress is not None:
        arguments["progress"] = progress
    return registry.make("task", name, **arguments)  # type: ignore[no-any-return]


def make_model(config: Config, task: Task) -> nn.Module:
    """The model with its first weights, which the seed alone decides."""
    settings = {name: value for name, value in config.model.model_dump().items() if value is not None}
    name = settings.pop("model")
    sizes = {"vocab": task.vocab, "features": task.features, "source_size": task.source_size}
    init = rng.generator(config.run.seed or 0, "init")
    model = registry.make("model", name, **sizes, **settings, rng=init)
    if not isinstance(model, nn.Module):
        raise SearnnError(f"--model {name} gives a {type(model).__name__}: a model must be a torch.nn.Module")
    if next(model.parameters(), None) is None:
        raise SearnnError(f"--model {name} gives a {type(model).__name__} without parameters: nothing can be trained")
    return model


def knowledge(task: Task) -> dict[str, Any]:
    """What the task knows of its vocabulary beyond sizes, for costs and oracles: its tags, its unknown word."""
    return getattr(task, "knowledge", {})


def check_task(config: Config, task: Task) -> None:
    """Refuse a cost or an oracle that the task's outputs are not made for."""
    chosen = {"cost": config.search.cost, "oracle": config.search.oracle}
    for axis, name in chosen.items():
        if name == "chunk-f1" and "tags" not in knowledge(task):
            raise SearnnError(f"--{axis} chunk-f1 judges tags of chunks, the task {task.name} has none: choose another")
    if chosen["oracle"] == "best-suffix" and task.vocab.eos is None:
        told = f"the task {task.name} knows their length: choose another"
        raise SearnnError(f"--oracle best-suffix is for outputs that end by themselves, {told}")


def make_cost(config: Config, task: Task) -> Cost:
    """The cost of the search; where nothing is searched, the task's own, for the diagnostics."""
    values, vocab = config.flat(), task.vocab
    name = values["cost"] or recipes.default("cost", values)
    normalised = values["normalised_cost"]
    if normalised is None:
        normalised = recipes.default("normalised_cost", {**values, "cost": name})
    found = registry.find("cost", name)
    if isclass(found):
        definition = values["bleu"] or recipes.default("bleu", values)
        return registry.make(  # type: ignore[no-any-return]
            "cost", name, vocab=vocab, normalised=normalised, definition=definition, **knowledge(task)
        )
    registry.check_cost_function("cost", name, found)
    return from_callable(found, vocab, units=getattr(task, "units", None))  # of text it sees characters or words


def make_algorithm(config: Config, cost: Cost, known: dict[str, Any] | None = None) -> Algorithm:
    """The algorithm with the policies, samplers and numbers that it takes; `known` is the task's `knowledge`."""
    given: dict[str, Any] = {name: value for name, value in config.flat().items() if value is not None}
    given["knowledge"] = known or {}
    wanted = registry.parameters(registry.find("algorithm", given["algorithm"]))
    numbers = {name: _scheduled(given[name]) for name in wanted if name in given and name not in (*PARTS, "cost")}
    parts = {name: make(given) for name, make in PARTS.items() if name in wanted}
    algorithm: Algorithm = registry.make("algorithm", given["algorithm"], cost=cost, **numbers, **parts)
    if not given.get("warm_up"):
        return algorithm
    return WarmUp(Mle(**_only(given, "normalisation")), algorithm, given["warm_up"])


def make_roll_in(given: dict[str, Any]) -> RollIn:
    """The policy that makes the prefix; each member takes those arguments that it knows."""
    arguments: dict[str, Any] = {"reference": _reference(given), "oracle": _oracle(given)}
    if "roll_in_reference_probability" in given:
        arguments["reference_probability"] = _scheduled(given["roll_in_reference_probability"])
    if "roll_in_mix_per" in given:
        arguments["per"] = given["roll_in_mix_per"]
    if "temperature" in given:
        arguments["temperature"] = given["temperature"]
    return registry.make("roll_in", given["roll_in"], **arguments)  # type: ignore[no-any-return]


def make_roll_out(given: dict[str, Any]) -> RollOut:
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


def make_cells(given: dict[str, Any]) -> CellSampler:
    """The cells that are costed."""
    arguments = {"n": given["n_cells"]} if "n_cells" in given else {}
    return registry.make("cells", given["cells"], **arguments)  # type: ignore[no-any-return]


def make_loss(given: dict[str, Any]) -> Loss:
    """The cost-sensitive loss of a cell."""
    return registry.make("loss", given["loss"], **_only(given, "alpha", "ties"))  # type: ignore[no-any-return]


def make_settings(config: Config) -> TrainingSettings:
    """What the training loop reads."""
    values = {name: value for name, value in config.flat().items() if value is not None}
    known: dict[str, Any] = _only(values, *(field.name for field in fields(TrainingSettings)))
    off: dict[str, Any] = {name: None for name, value in known.items() if value == "none"}
    return TrainingSettings(**{**known, **off})


def _only(given: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: given[name] for name in names if name in given}


def _oracle(given: dict[str, Any]) -> Oracle:
    arguments = {"definition": given.get("bleu"), "measure": given.get("measure"), **given["knowledge"]}
    chosen = {name: value for name, value in arguments.items() if value is not None}
    return registry.make("oracle", given.get("oracle", "copy"), **chosen)  # type: ignore[no-any-return]


def _reference(given: dict[str, Any]) -> Reference:
    return Reference(oracle=_oracle(given))


def _scheduled(value: Any) -> Any:
    """A number, a word, or a schedule, which is written with colons."""
    return schedules.parse(value) if isinstance(value, str) and ":" in value else value


PARTS: dict[str, Callable[[dict[str, Any]], Any]] = {  # what an algorithm may take besides numbers, words and a cost
    "roll_in": make_roll_in,
    "roll_out": make_roll_out,
    "tokens": make_tokens,
    "cells": make_cells,
    "loss": make_loss,
    "oracle": _oracle,
}
