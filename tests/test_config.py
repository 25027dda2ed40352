"""The configuration: names that are unique, and settings that really arrive in what is built."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from config_cases import given

from searnn import costs, losses, oracles, policies, samplers, schedules
from searnn.algorithms import Mle, Reinforce, Searnn, WarmUp
from searnn.config import build, from_flags, read, resolve, write
from searnn.config.building import knowledge, make_algorithm, make_cost, make_model, make_settings, make_task
from searnn.config.kinds import split_tokens
from searnn.config.recipes import of_algorithm
from searnn.config.registry import AXES
from searnn.config.schema import GROUP_OF, GROUPS, MethodGroup
from searnn.models import EncoderDecoder, Transformer
from searnn.models.encoder import ConvEncoder
from searnn.models.layers import GruLayer, LstmLayer
from searnn.models.multihead import DecoderLayer
from searnn.settings import arguments
from searnn.tasks import Copy
from searnn.types import SearnnError, Vocabulary

VOCAB = Vocabulary(size=5, pad=5, bos=6, eos=4)
TAGS = ("O", "B-a", "I-a", "B-b")


class Knowing(Copy):
    """A task that knows more of its tokens than their number."""

    knowledge: ClassVar[dict[str, Any]] = {"tags": TAGS, "unknown": 3}


TASK = Knowing(symbols=4, length=2, examples=10)


def test_names_are_unique_and_described_in_one_line():
    assert len(GROUP_OF) == sum(len(model.model_fields) for model in GROUPS.values())
    for model in GROUPS.values():
        assert model.__doc__
        for name, field in model.model_fields.items():
            assert field.description, name
            assert "\n" not in field.description
            assert len(field.description) < 70, name
            assert field.default is None, name


def test_every_annotation_here_can_be_read():
    """One that cannot would lose its setting in silence."""
    for axis, found in AXES.items():
        for name, member in found.items():
            unread = [one.name for one in arguments(member).values() if one.type is Any]
            assert not unread, (axis, name)


def at(node: Any, path: str) -> Any:
    """`roll_out.learned.beam` of an algorithm."""
    return reduce(getattr, path.split("."), node)


MIXED_IN = {"roll_in": "mixed"}
ARRIVES = [
    ({"roll_in": "reference"}, "roll_in", policies.Reference()),
    ({"roll_in": "learned"}, "roll_in", policies.Learned()),
    ({"roll_in": "sampled", "temperature": "2"}, "roll_in", policies.Sampled(temperature=2.0)),
    ({"roll_in": "learned", "roll_in_beam": "3"}, "roll_in.beam", 3),
    ({"roll_in_beam": "3", "roll_in_length_penalty": "0.5"}, "roll_in.length_penalty", 0.5),
    ({**MIXED_IN, "roll_in_beam": "3"}, "roll_in.learned.beam", 3),
    ({**MIXED_IN, "roll_in_mix_sampled": "true"}, "roll_in.sampled", True),
    (MIXED_IN, "roll_in", policies.Mixed()),
    ({**MIXED_IN, "roll_in_reference_probability": "0.25"}, "roll_in.reference_probability", 0.25),
    ({**MIXED_IN, "roll_in_mix_per": "token"}, "roll_in.per", "token"),
    (
        {**MIXED_IN, "roll_in_reference_probability": "linear:1:0:10"},
        "roll_in.reference_probability",
        schedules.Linear(1.0, 0.0, 10),
    ),
    ({"roll_out": "reference"}, "roll_out", policies.Reference()),
    ({"roll_out": "learned"}, "roll_out", policies.Learned()),
    ({"roll_out": "learned", "roll_out_beam": "3"}, "roll_out.beam", 3),
    ({"roll_out": "learned", "roll_out_beam": "3", "roll_out_length_penalty": "0"}, "roll_out.length_penalty", 0.0),
    ({"roll_out_beam": "3", "roll_out_length_penalty": "0"}, "roll_out.learned.length_penalty", 0.0),
    ({"roll_out": "sampled"}, "roll_out", policies.Sampled()),
    ({"roll_out": "sampled", "roll_out_temperature": "2", "budget": "3"}, "roll_out.budget", 3 * 2**20),
    ({"roll_out": "sampled", "roll_out_temperature": "2"}, "roll_out.temperature", 2.0),
    ({"roll_out": "learned", "budget": "3"}, "roll_out.budget", 3 * 2**20),
    ({}, "roll_out", policies.Mixed()),
    ({"reference_probability": "0.25"}, "roll_out.reference_probability", 0.25),
    ({"mix_per": "cell"}, "roll_out.per", "cell"),
    ({"roll_out_beam": "3"}, "roll_out.learned.beam", 3),
    ({"budget": "3"}, "roll_out.learned.budget", 3 * 2**20),
    ({"roll_out": "focused"}, "roll_out.steps", 2),
    ({"roll_out": "focused", "focus_steps": "4"}, "roll_out.steps", 4),
    ({"roll_out": "focused", "focus_steps": "stepwise:0:1:9"}, "roll_out.steps", schedules.Stepwise(0.0, 1.0, 9)),
    ({"roll_in": "reference", "oracle": "optimal-edit"}, "roll_out.reference.oracle.name", "optimal-edit"),
    (
        {**MIXED_IN, "roll_in_mix_per": "token", "roll_out": "learned", "oracle": "optimal-edit"},
        "roll_in.reference.oracle.name",
        "optimal-edit",
    ),
    ({"oracle": "optimal-edit"}, "roll_out.reference.oracle.name", "optimal-edit"),
    ({"roll_out": "focused", "oracle": "optimal-edit"}, "roll_out.reference.oracle.name", "optimal-edit"),
    ({"oracle": "best-suffix"}, "roll_out.reference.oracle", oracles.BestSuffix(unknown=3)),
    (
        {"oracle": "best-suffix", "measure": "bleu-4", "bleu": "bahdanau"},
        "roll_out.reference.oracle",
        oracles.BestSuffix("bleu-4", "bahdanau", unknown=3),
    ),
    (
        {**MIXED_IN, "roll_in_mix_per": "token", "roll_out": "learned", "oracle": "best-suffix", "measure": "gleu"},
        "roll_in.reference.oracle",
        oracles.BestSuffix("gleu", unknown=3),
    ),
    ({"oracle": "chunk-f1"}, "roll_out.reference.oracle", oracles.ChunkOracle(TAGS)),
    ({"cost": "hamming"}, "cost", costs.Hamming(VOCAB, normalised=True)),
    ({"cost": "hamming", "normalised_cost": "false"}, "cost", costs.Hamming(VOCAB, normalised=False)),
    ({"cost": "edit"}, "cost", costs.EditDistance(VOCAB)),
    ({"cost": "exact"}, "cost", costs.ExactMatch(VOCAB)),
    ({"cost": "bleu"}, "cost", costs.SentenceBleu(VOCAB, unknown=3)),
    ({"cost": "bleu", "bleu": "bahdanau"}, "cost", costs.SentenceBleu(VOCAB, "bahdanau", unknown=3)),
    ({"cost": "gleu"}, "cost", costs.Gleu(VOCAB)),
    ({"cost": "chunk-f1"}, "cost", costs.ChunkF1(VOCAB, TAGS)),
    ({"tokens": "all"}, "tokens", samplers.AllTokens()),
    ({"tokens": "uniform", "k": "3"}, "tokens", samplers.UniformTokens(3)),
    ({"tokens": "policy", "k": "3"}, "tokens", samplers.PolicyTokens(3)),
    ({"tokens": "biased", "k": "3", "boost": "0.2"}, "tokens", samplers.BiasedTokens(3, boost=0.2)),
    ({"tokens": "top:3"}, "tokens", samplers.TopTokens(3)),
    ({"tokens": "neighbours"}, "tokens", samplers.NeighbourTokens(5)),
    ({"tokens": "targeted", "threshold": "0.2"}, "tokens", samplers.TargetedTokens(5, threshold=0.2)),
    (
        {"tokens": "top:3+neighbours", "k": "2"},
        "tokens",
        samplers.union(samplers.TopTokens(3), samplers.NeighbourTokens(2)),
    ),
    ({"tokens": "end"}, "tokens", samplers.EndToken()),
    ({"tokens": "top+end", "k": "2"}, "tokens", samplers.union(samplers.TopTokens(2), samplers.EndToken())),
    ({"cells": "all"}, "cells", samplers.AllCells()),
    ({"cells": "uniform", "n_cells": "3"}, "cells", samplers.UniformCells(3)),
    ({"cells": "uncertain"}, "cells", samplers.UncertainCells(20)),
    ({"loss": "ll", "ties": "model"}, "loss", losses.LogLoss(ties="model")),
    ({"loss": "kl", "alpha": "2"}, "loss", losses.KLLoss(alpha=2.0)),
    ({"loss": "kl", "alpha": "auto"}, "loss.alpha", None),
    ({"loss": "js", "alpha": "auto"}, "loss.target_entropy", 0.5),
    ({"loss": "kl", "alpha": "auto", "target_entropy": "0.2"}, "loss.tuned.entropy", 0.2),
    ({"dropout": "0.1", "search_dropout": "true"}, "search_dropout", True),
    ({"loss": "llcas", "alpha": "2"}, "loss", losses.CostAugmentedLogLoss(alpha=2.0)),
    ({"loss": "hinge", "alpha": "2", "ties": "model"}, "loss", losses.HingeLoss(alpha=2.0, ties="model")),
    ({"loss": "consistent"}, "loss", losses.ConsistentLoss()),
    ({"loss": "reverse-kl", "alpha": "2"}, "loss", losses.ReverseKLLoss(alpha=2.0)),
    ({"loss": "js", "alpha": "2"}, "loss", losses.JSLoss(alpha=2.0)),
    ({"loss": "l2", "alpha": "2"}, "loss", losses.SquaredLoss(alpha=2.0)),
    ({"normalisation": "cell"}, "normalisation", "cell"),
    ({"tokens": "top", "softmax": "vocabulary"}, "softmax", "vocabulary"),
    ({"tokens": "top", "softmax": "default-cost"}, "default_cost", None),
    ({"tokens": "top", "softmax": "default-cost", "default_cost": "0.5"}, "default_cost", 0.5),
    ({"algorithm": "lols", "tokens": "top", "softmax": "vocabulary"}, "softmax", "vocabulary"),
    ({"classifier": "cell"}, "classifier", "cell"),
    ({"algorithm": "searnn"}, "cross_entropy_weight", 0.0),
    ({"algorithm": "searnn", "cross_entropy_weight": "0.5"}, "cross_entropy_weight", 0.5),
    ({"algorithm": "searnn", "cross_entropy_weight": "0.5"}, "label_smoothing", 0.0),
    ({"algorithm": "searnn", "cross_entropy_weight": "0.5", "label_smoothing": "0.1"}, "label_smoothing", 0.1),
    ({"algorithm": "mle", "label_smoothing": "0.1"}, "label_smoothing", 0.1),
    ({"algorithm": "mle", "normalisation": "sum"}, "normalisation", "sum"),
    *(({"algorithm": name}, "normalisation", "batch") for name in AXES["algorithm"] if name != "mrt"),
    ({"algorithm": "scheduled-sampling", "sampling_probability": "0.25"}, "sampling_probability", 0.25),
    (
        {"algorithm": "scheduled-sampling", "sampling_probability": "linear:0:1:9"},
        "sampling_probability",
        schedules.Linear(0.0, 1.0, 9),
    ),
    ({"algorithm": "scheduled-sampling", "own_tokens": "sampled"}, "own_tokens", "sampled"),
    ({"algorithm": "searn", "beta": "0.2", "loss": "ll"}, "beta", 0.2),
    ({"algorithm": "searn", "loss": "ll"}, "loss", losses.LogLoss(ties="model")),
    ({"algorithm": "searn", "rounds": "3"}, "rounds", 3),
    ({"algorithm": "searn", "round_steps": "7"}, "round_steps", 7),
    ({"algorithm": "lols", "reference_probability": "0.1"}, "reference_probability", 0.1),
    ({"algorithm": "lols", "oracle": "optimal-edit"}, "oracle", oracles.OptimalEdit()),
    ({"algorithm": "lols", "cells": "uniform", "n_cells": "2"}, "cells", samplers.UniformCells(2)),
    ({"algorithm": "bandit-lols", "loss": "l2", "alpha": "2"}, "loss", losses.SquaredLoss(2.0)),
    ({"algorithm": "dagger", "oracle": "best-suffix"}, "oracle", oracles.BestSuffix(unknown=3)),
    ({"algorithm": "dagger", "round_steps": "7"}, "aggregation.round_steps", 7),
    ({"algorithm": "dagger", "buffer": "2"}, "aggregation.buffer", 2),
    ({"algorithm": "aggrevate", "reference_decay": "0.1"}, "aggregation.reference_decay", 0.1),
    ({"algorithm": "aggrevate", "tokens": "top:3"}, "tokens", samplers.TopTokens(3)),
    ({"algorithm": "aggrevated"}, "roll_in", policies.Sampled()),
    ({"algorithm": "aggrevated", "cost": "exact"}, "cost", costs.ExactMatch(VOCAB)),
    ({"algorithm": "bso", "train_beam": "stepwise:2:1:100"}, "train_beam", schedules.Stepwise(2.0, 1.0, 100)),
    ({"algorithm": "bso", "margin": "0.5"}, "margin", 0.5),
    ({"algorithm": "bso", "cost_weighted": "true", "cost": "hamming"}, "cost", costs.Hamming(VOCAB, normalised=True)),
    ({"algorithm": "laso", "train_beam": "4"}, "train_beam", 4),
    ({"algorithm": "reinforce", "samples": "4"}, "samples", 4),
    ({"algorithm": "reinforce", "baseline": "none"}, "baseline", "none"),
    ({"algorithm": "reinforce", "entropy_bonus": "0.1"}, "entropy_bonus", 0.1),
    ({"algorithm": "mixer", "cross_entropy_cells": "2"}, "cross_entropy_cells", 2),
    ({"algorithm": "mixer"}, "cross_entropy_cells", schedules.Linear(12.0, 0.0, 1000)),
    ({"algorithm": "mixer", "cross_entropy_weight": "0.5"}, "cross_entropy_weight", 0.5),
    ({"algorithm": "self-critical", "baseline": "leave-one-out", "samples": "4"}, "baseline", "leave-one-out"),
    ({"algorithm": "mrt", "sharpness": "0.02"}, "sharpness", 0.02),
    ({"algorithm": "mrt", "with_truth": "false"}, "with_truth", False),
    ({"algorithm": "actor-critic", "critic_width": "9"}, "critic_width", 9),
    ({"algorithm": "actor-critic", "critic_steps": "0"}, "critic_steps", 0),
    ({"algorithm": "actor-critic", "delay": "0.5"}, "delay", 0.5),
    ({"algorithm": "actor-critic", "variance_penalty": "0.5"}, "variance_penalty", 0.5),
    ({"algorithm": "raml", "tau": "0"}, "tau", 0.0),
    ({"algorithm": "ocd", "tau": "0.5", "roll_in": "learned"}, "tau", 0.5),
    ({"algorithm": "ocd", "roll_in": "learned"}, "roll_in", policies.Learned()),
]


@pytest.mark.parametrize(("settings", "path", "expected"), ARRIVES)
def test_a_setting_arrives_in_the_algorithm(settings: dict[str, str], path: str, expected: Any):
    config = resolve(given(**settings))
    algorithm = make_algorithm(config, make_cost(config, TASK), knowledge(TASK))
    found: Any = at(algorithm.then if isinstance(algorithm, WarmUp) else algorithm, path)
    assert found == expected
    assert type(found) is type(expected)


def test_every_setting_of_an_algorithm_is_among_those_cases():
    tried = {name for settings, _, _ in ARRIVES for name in settings}
    assert set(MethodGroup.model_fields) <= tried


def test_what_needs_a_warm_up_gets_one():
    warmed_up = {name for name in AXES["algorithm"] if "warm_up" in of_algorithm(name)}
    assert {"bso", "mixer", "reinforce", "actor-critic"} <= warmed_up

    def built(**settings: str) -> Any:
        config = resolve(given(**settings))
        return make_algorithm(config, make_cost(config, TASK))

    for name in AXES["algorithm"]:
        found = built(algorithm=name, steps="80")
        if name in warmed_up:
            assert isinstance(found, WarmUp)
            assert (found.steps, found.first) == (20, Mle())
            found = found.then
        assert type(found) is AXES["algorithm"][name]
    assert built(algorithm="reinforce", minutes="3").steps == 450
    assert type(built(algorithm="reinforce", warm_up="0")) is Reinforce
    assert type(built(algorithm="reinforce", init_from="some/run")) is Reinforce
    own = built(algorithm="searnn", warm_up="7", normalisation="cell")
    assert (own.steps, own.first, type(own.then)) == (7, Mle(normalisation="cell"), Searnn)


SIZES = {"width": "6", "layers": "2", "dropout": "0.5"}
MODELS = [  # settings, and where in the model they can be seen
    (
        {**SIZES, "model": "gru", "embedding": "4", "attention": "aligned"},
        {"attention": "aligned", "embed.embedding_dim": 4, "bridge": None, "encoder.width": 6},
        EncoderDecoder,
        GruLayer,
    ),
    (
        {**SIZES, "model": "lstm", "embedding": "4", "attention": "additive", "bidirectional": "true"},
        {"attention": "additive", "embed.embedding_dim": 4, "encoder.width": 12},
        EncoderDecoder,
        LstmLayer,
    ),
    (
        {**SIZES, "model": "conv-gru", "embedding": "4", "window": "7"},
        {"attention": "additive", "embed.embedding_dim": 4, "encoder.window": 7, "encoder.width": 4},
        EncoderDecoder,
        GruLayer,
    ),
    (
        {**SIZES, "model": "transformer", "heads": "3", "feedforward": "5"},
        {"inside": 5, "embed.embedding_dim": 6},
        Transformer,
        DecoderLayer,
    ),
]


@pytest.mark.parametrize(("settings", "seen", "kind", "layer"), MODELS, ids=[case[0]["model"] for case in MODELS])
def test_a_setting_arrives_in_the_model(settings: dict[str, str], seen: dict[str, Any], kind: type, layer: type):
    model = make_model(resolve(given(**settings)), TASK)
    assert type(model) is kind
    assert [type(part) for part in model.layers] == [layer] * 2
    assert model.project.in_features == 6
    assert model.dropout.p == 0.5
    assert {path: at(model, path) for path in seen} == seen
    assert isinstance(getattr(model, "encoder", None), ConvEncoder) == (settings["model"] == "conv-gru")
    if kind is Transformer:  # the heads show in the shapes of what is kept
        batch = next(iter(TASK.test(2)))
        assert model.encode(batch.inputs).source[0].keys.shape[1] == 3


def test_every_member_of_every_axis_is_among_those_cases():
    for axis, members in AXES.items():
        tried = {settings.get(axis) for settings, _, _ in ARRIVES} | {resolve(given()).flat().get(axis)}
        tried |= {settings.get(axis) for settings, *_ in MODELS}
        tried |= {name for text in tried if axis == "tokens" and text for name, _ in split_tokens(text)}
        if axis != "task":
            assert set(members) <= tried, axis


def test_training_settings_arrive():
    values = {
        "optimizer": "sgd", "lr": "0.2", "momentum": "0.9", "weight_decay": "0.1", "schedule": "plateau",
        "min_lr": "0.01", "lr_warmup": "3", "plateau_factor": "0.3", "plateau_patience": "7", "clip": "none",
        "batch_size": "9", "minutes": "2", "steps": "11", "patience": "4", "eval_every": "6", "seed": "5",
        "device": "cpu", "precision": "64-true", "tensorboard": "true",
    }  # fmt: skip
    settings = make_settings(resolve(given(**values)))
    for name, text in values.items():
        value = getattr(settings, name)
        assert value is None if text == "none" else str(value).lower() == text or float(value) == float(text), name
    assert make_settings(resolve(given())).clip == 5.0
    assert make_settings(resolve(given(minutes="3"))).steps is None


def test_the_model_and_the_task_are_built_as_asked():
    tiny = {"symbols": "3", "length": "2", "examples": "20"}
    settings = {"model": "lstm", "width": "6", "layers": "2", "bidirectional": "true", "attention": "additive"}
    built = build(resolve(given(**tiny, **settings, embedding="4", dropout="0.5")))
    assert built.task.vocab.size == 4
    assert built.model.embed.embedding_dim == 4
    assert built.model.project.in_features == 6
    assert len(built.model.layers) == 2
    assert built.model.attention == "additive"
    assert built.model.dropout.p == 0.5
    assert built.model.bridge is not None
    same = build(resolve(given(**tiny)))
    weights = [build(resolve(given(**tiny, seed=seed))).model.project.weight for seed in "001"]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    backwards = build(resolve(given(**tiny, reverse="true"))).task
    assert not torch.equal(next(iter(backwards.test(2))).targets, next(iter(same.task.test(2))).targets)


def test_files_and_metric_arrive_in_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.tsv").write_text("a b\tc d\na b b\tc c\n" * 2)
    (tmp_path / "sources.txt").write_text("a\na b\n")
    (tmp_path / "targets.txt").write_text("c\nd\n")
    files = {"train": ["train.tsv"], "valid": ["sources.txt", "targets.txt"]}
    config = resolve(from_flags({"name": "pairs", **files, "level": "words", "min_count": "3", "metric": "bleu"}))
    assert config.task.train == [str(tmp_path / "train.tsv")]  # as seen from anywhere
    write(config, tmp_path / "config.toml")
    assert read(tmp_path / "config.toml") == config
    task = make_task(config)
    assert (task.metric, task.higher_is_better) == ("bleu", True)
    assert {"a", "b"} < set(task.source.units)
    assert "c" in task.target.units
    assert "d" not in task.target.units  # it comes twice only
    assert sorted(i for batch in task.valid(1) for i in batch.ids) == [1, 2]  # the numbers of the lines
    listed = "must be wer, per, error, sequence_error, exact, bleu or chrf, or package.module:function, got 'cer'"
    with pytest.raises(SearnnError, match=listed):
        from_flags({"name": "pairs", **files, "level": "words", "metric": "cer"})
