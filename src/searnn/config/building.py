"""From a resolved configuration to the objects that train: the only place that knows both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isclass
from pathlib import Path
from typing import Any

from torch import nn

from searnn import rng, schedules
from searnn.algorithms import WarmUp
from searnn.config import recipes, registry
from searnn.config.kinds import split_tokens
from searnn.config.resolving import given_settings
from searnn.config.schema import DECLARED, Config, Declared, extended, names
from searnn.costs import from_callable
from searnn.data.store import Progress
from searnn.interfaces import (
    Algorithm,
    Cost,
    HasUnits,
    Knowledgeable,
    Task,
    TokenSampler,
)
from searnn.policies import Reference
from searnn.samplers import union
from searnn.settings import arguments
from searnn.training import TrainingSettings
from searnn.types import SearnnError

Settings = Mapping[str, Any]  # by name, those that are set
REFERRING = ("oracle", "roll_in", "roll_out")  # arguments of an algorithm that ask an oracle


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


def make_task(
    config: Config,
    text: Path | None = None,
    progress: Progress | None = None,
    *,
    measure: Callable[..., float] | None = None,
) -> Task:
    """The task, its data found; `text` is the folder of what a trained run has learned of its data.

    `measure` stands for a metric of the user's own, which then is not imported.
    """
    values = given_settings(config)
    name, metric = values["name"], values.pop("metric", None)
    given: dict[str, Any] = {}
    if metric is not None and registry.is_own(metric):
        given["measure"] = measure or registry.imported("metric", metric)
        registry.check_cost_function("metric", metric, given["measure"])
    elif metric is not None:
        given["metric"] = metric
    if text is not None and registry.takes("task", name, "text"):
        if not text.is_dir():
            raise SearnnError(f"there is no folder {text}, which holds the run's vocabulary: restore it, or train anew")
        given["text"] = text
    if progress is not None:
        given["progress"] = progress
    return made("task", name, values, **given)  # type: ignore[no-any-return]


def make_model(config: Config, task: Task) -> nn.Module:
    """The model with its first weights, which the seed alone decides."""
    values = given_settings(config)
    sizes = {"vocab": task.vocab, "features": task.features, "source_size": task.source_size}
    init, name = rng.generator(config.run.seed or 0, "init"), values["model"]
    model = made("model", name, values, **sizes, rng=init)
    if not isinstance(model, nn.Module):
        raise SearnnError(f"--model {name} gives a {type(model).__name__}: a model must be a torch.nn.Module")
    if next(model.parameters(), None) is None:
        raise SearnnError(f"--model {name} gives a {type(model).__name__} without parameters: nothing can be trained")
    return model


def knowledge(task: Task) -> Mapping[str, Any]:
    """What the task knows of its vocabulary beyond sizes, for costs and oracles: its tags, its unknown word."""
    return task.knowledge if isinstance(task, Knowledgeable) else {}


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
    values = config.flat()
    name = values["cost"] = values["cost"] or recipes.default("cost", values)
    found = registry.find("cost", name)
    if isclass(found):
        for setting in names("cost", name).values():
            if values[setting] is None:
                values[setting] = recipes.default(setting, values, config.declared)
        return made("cost", name, values, vocab=task.vocab, **knowledge(task))  # type: ignore[no-any-return]
    registry.check_cost_function("cost", name, found)
    units = task.units if isinstance(task, HasUnits) else None  # of text it sees characters or words
    return from_callable(found, task.vocab, units=units)


def make_algorithm(config: Config, cost: Cost, known: Mapping[str, Any] | None = None) -> Algorithm:
    """The algorithm with the policies, samplers and numbers that it takes; `known` is the task's `knowledge`."""
    values, name = given_settings(config), config.method.algorithm
    refers = any(registry.takes("algorithm", name, part) for part in REFERRING)
    asked: Any = made("oracle", values.get("oracle", "copy"), values, **known or {}) if refers else None
    makers: dict[str, Callable[[], Any]] = {  # what an algorithm may take besides numbers, words and a cost
        "roll_in": lambda: _roll_in(values, asked),
        "roll_out": lambda: _roll_out(values, asked),
        "tokens": lambda: _tokens(values),
        "cells": lambda: made("cells", values["cells"], values),
        "loss": lambda: made("loss", values["loss"], values),
        "oracle": lambda: asked,
    }
    parts = {part: make() for part, make in makers.items() if registry.takes("algorithm", name, part)}
    algorithm: Algorithm = made("algorithm", name, values, cost=cost, **parts)
    if not values.get("warm_up"):
        return algorithm
    return WarmUp(made("algorithm", "mle", values), algorithm, values["warm_up"])


def _roll_in(values: Settings, oracle: Any) -> Any:
    """The policy that makes the prefix."""
    learned = made("roll_in", "learned", values)
    return made("roll_in", values["roll_in"], values, reference=Reference(oracle), oracle=oracle, learned=learned)


def _roll_out(values: Settings, oracle: Any) -> Any:
    """The policy that ends the outputs."""
    learned = made("roll_out", "learned", values)
    return made("roll_out", values["roll_out"], values, reference=Reference(oracle), oracle=oracle, learned=learned)


def _tokens(values: Settings) -> TokenSampler:
    """The candidates: one sampler, or several joined."""
    given = [(name, {} if k is None else {"k": k}) for name, k in split_tokens(values["tokens"])]
    members = [made("tokens", name, {**values, **own}) for name, own in given]
    return members[0] if len(members) == 1 else union(*members)


def make_settings(config: Config) -> TrainingSettings:
    """What the training loop reads."""
    taken = arguments(TrainingSettings)
    known = {name: value for name, value in given_settings(config).items() if name in taken}
    return TrainingSettings(**{name: _kept(value, DECLARED[name]) for name, value in known.items()})


def made(axis: str, name: str, values: Settings, **given: Any) -> Any:
    """A member of an axis, made with those of the settings that it takes, and with what else is `given` to it."""
    items = extended(((axis, name),)).declared if registry.is_own(name) else DECLARED
    found = names(axis, name).items()
    own = {argument: _kept(values[key], items[key]) for argument, key in found if values.get(key) is not None}
    return registry.make(axis, name, **own, **given)


def _kept(value: Any, item: Declared) -> Any:
    """A setting as its argument takes it: a word for None, bytes in place of MiB, a schedule parsed."""
    if item.setting.none and value == item.setting.none:
        return None
    if item.setting.schedule and isinstance(value, str):
        return schedules.parse(value)
    return value * item.setting.unit if item.setting.unit != 1 else value
