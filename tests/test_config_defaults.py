"""Defaults: complete, what the paper found best, and following what was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from config_cases import FILES, NEEDED

from searnn.config import from_flags, read, resolve, write
from searnn.config.applies import obstacle
from searnn.config.registry import AXES
from searnn.config.schema import DECLARED

MAY_BE_UNSET = {
    "data",
    "train",
    "valid",
    "test",
    "target_level",
    "target_normalise",
    "language",
    "features",
    "init_from",
}  # the public data, the sources' own


@pytest.mark.parametrize("algorithm", list(AXES["algorithm"]))
@pytest.mark.parametrize("task", list(AXES["task"]))
def test_a_resolved_configuration_is_complete_and_stays_the_same(task: str, algorithm: str, tmp_path: Path):
    config = resolve(from_flags({"name": task, "algorithm": algorithm, **NEEDED.get(task, {})}))
    values = config.flat()
    for name, value in values.items():
        if name not in MAY_BE_UNSET:
            assert (value is None) == (obstacle(DECLARED[name], values) is not None), name
    assert resolve(config) == config
    write(config, tmp_path / "config.toml")
    assert read(tmp_path / "config.toml") == config
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_the_ocr_recipe_and_that_of_the_papers_model():
    values = resolve(from_flags({"name": "ocr"})).flat()
    expected = {
        "algorithm": "searnn", "loss": "kl", "alpha": 3.0, "roll_in": "learned", "roll_out": "learned", "fold": 0,
        "tokens": "all", "cells": "all", "cost": "hamming", "normalised_cost": False, "model": "gru", "width": 128,
        "attention": "aligned", "bidirectional": True, "dropout": 0.5, "layers": 1, "optimizer": "adam", "lr": 1e-3,
        "schedule": "cosine", "batch_size": 64, "clip": 5.0, "normalisation": "batch", "steps": 9000,
        "eval_every": 250, "patience": "none", "minutes": "none", "average": 0.0,
    }  # fmt: skip
    assert {name: values[name] for name in expected} == expected
    papers = {
        "attention": "none", "bidirectional": False, "dropout": 0.0, "optimizer": "sgd", "lr": 0.5,
        "schedule": "constant", "roll_out": "mixed",
    }  # fmt: skip
    values = resolve(from_flags({"name": "ocr", "attention": "none"})).flat()
    assert {name: values[name] for name in expected} == {**expected, **papers}
    assert (values["reference_probability"], values["mix_per"]) == (0.5, "example")
    assert resolve(from_flags({"name": "ocr", "normalised_cost": "true"})).loss.alpha == 30
    assert resolve(from_flags({"name": "spelling", "loss": "kl"})).loss.alpha == 100
    assert resolve(from_flags({"name": "spelling", "loss": "hinge"})).loss.alpha == 30
    assert resolve(from_flags({"name": "spelling", "loss": "kl", "normalised_cost": "false"})).loss.alpha == 3
    assert resolve(from_flags({"name": "ocr", "optimizer": "sgd"})).optimisation.lr == 0.5
    limited = resolve(from_flags({"name": "ocr", "minutes": "2"})).optimisation
    assert (limited.steps, limited.schedule, limited.eval_every) == ("none", "cosine", "none")


PAPER = {  # what the paper says of its runs, and what a task cannot do without
    "spelling": {
        "noise": 0.3, "cost": "edit", "normalised_cost": True, "loss": "ll", "roll_in": "learned", "roll_out": "mixed",
        "attention": "additive", "width": 100, "bidirectional": True, "batch_size": 128, "tokens": "policy", "k": 5,
        "windows": False, "metric": None,
    },
    "translation": {
        "corpus": "multi30k", "direction": "de-en", "level": "words", "roll_in": "reference", "roll_out": "mixed",
        "cost": "bleu", "bleu": "bahdanau", "oracle": "best-suffix", "measure": "bleu-1", "alpha": 200.0, "loss": "kl",
        "tokens": "top:15+neighbours:11+end", "cells": "uniform", "n_cells": 20, "metric": "bleu", "train": None,
        "width": 256, "bidirectional": True, "attention": "additive", "min_lr": 1e-5,
    },
    "chunking": {"attention": "aligned", "oracle": "chunk-f1", "cost": "chunk-f1", "bleu": None, "steps": 6000},
    "g2p": {"stress": False, "metric": "per", "cost": "edit", "normalised_cost": False, "alpha": 3.0},
    "pairs": {"level": "chars", "metric": "error", "cost": "edit", "oracle": "copy", "alpha": 3.0, "max_vocab": "none"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "given", "expected"),
    [
        ("spelling", {}, 10_000),
        ("translation", {}, 8_000),
        ("translation", {"corpus": "iwslt14"}, 12_000),
        ("translation", {"corpus": "tatoeba"}, 20_000),
        ("g2p", {}, 15_000),
        ("g2p", {"minutes": "3"}, "none"),
        ("g2p", {"language": "dut"}, 10_000),
        ("pairs", {}, 10_000),
        ("pairs", {"minutes": "3"}, "none"),
    ],
)
def test_tasks_are_trained_as_long_as_was_measured(task: str, given: dict[str, str], expected: object):
    values = resolve(from_flags({"name": task, **NEEDED.get(task, {}), **given})).flat()
    assert values["steps"] == expected


@pytest.mark.parametrize("task", list(PAPER))
def test_the_recipes_of_the_other_tasks(task: str):
    values = resolve(from_flags({"name": task, **NEEDED.get(task, {})})).flat()
    assert {name: values[name] for name in PAPER[task]} == PAPER[task]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"cost": "bleu"}, {"oracle": "best-suffix", "alpha": 200.0, "metric": "error", "bleu": "bahdanau"}),
        ({"cost": "bleu", "level": "words"}, {"oracle": "best-suffix", "alpha": 200.0, "metric": "bleu"}),
        ({"cost": "gleu", "target_level": "words"}, {"oracle": "best-suffix", "alpha": 200.0, "metric": "bleu"}),
        ({"cost": "gleu", "oracle": "copy"}, {"measure": None, "bleu": None}),
        ({"cost": "exact"}, {"oracle": "copy", "alpha": 3.0, "metric": "sequence_error", "bleu": None}),
        ({"cost": "builtins:max"}, {"oracle": "copy", "alpha": 3.0, "metric": "builtins:max"}),
        ({"algorithm": "mle"}, {"metric": "error", "cost": None, "oracle": None}),
        ({"metric": "sequence_error"}, {"metric": "sequence_error", "cost": "edit"}),
        ({"model": "transformer", "width": "32"}, {"layers": 2, "feedforward": 128, "heads": 4, "attention": None}),
        ({"model": "conv-gru"}, {"layers": 1, "window": 5, "attention": None, "bidirectional": None}),
        ({"level": "sentencepiece"}, {"pieces": 8000, "min_count": None, "max_vocab": None}),
        ({"target_level": "sentencepiece"}, {"level": "chars", "pieces": 8000, "min_count": 1, "max_vocab": "none"}),
    ],
)
def test_defaults_follow_what_was_given(settings: dict[str, str], expected: dict[str, Any]):
    values = resolve(from_flags({"name": "pairs", **FILES, **settings})).flat()
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("task", "settings", "expected"),
    [
        ("copy", {"algorithm": "mixer"}, {"cross_entropy_cells": "linear:12:0:1000", "warm_up": 500}),
        ("copy", {"algorithm": "mixer", "steps": "400"}, {"cross_entropy_cells": "linear:12:0:200", "warm_up": 100}),
        ("ocr", {"algorithm": "mixer", "minutes": "5"}, {"cross_entropy_cells": "linear:12:0:1500", "warm_up": 750}),
        ("ocr", {"algorithm": "mixer", "minutes": "60"}, {"cross_entropy_cells": "linear:12:0:10000", "warm_up": 2000}),
        ("ocr", {"algorithm": "scheduled-sampling"}, {"sampling_probability": "inverse-sigmoid:4500:0:0.5"}),
        ("ocr", {"algorithm": "searn"}, {"round_steps": 450, "rounds": 5, "roll_in": None, "roll_out": None}),
        ("translation", {"algorithm": "raml"}, {"cost": "edit", "tau": "auto", "metric": "bleu"}),
        ("chunking", {"algorithm": "ocd"}, {"cost": "hamming", "tau": 0.0, "roll_in": "sampled", "temperature": 1.0}),
        ("spelling", {"algorithm": "bandit-lols"}, {"loss": "consistent", "reference_probability": 0.5}),
        ("translation", {"algorithm": "dagger"}, {"oracle": "copy", "cost": None, "buffer": 5}),
        ("translation", {"algorithm": "lols"}, {"oracle": "best-suffix", "measure": "bleu-1", "bleu": "bahdanau"}),
        ("spelling", {"algorithm": "actor-critic", "init_from": "r"}, {"warm_up": 0, "critic_steps": 1250}),
        ("ocr", {"algorithm": "actor-critic"}, {"warm_up": 2250, "critic_steps": 450, "cross_entropy_weight": 0.0}),
        ("translation", {"algorithm": "actor-critic"}, {"cross_entropy_weight": 0.1}),
        ("ocr", {"algorithm": "mle"}, {"warm_up": None, "label_smoothing": 0.1, "samples": None}),
        ("ocr", {"algorithm": "mle", "attention": "none"}, {"label_smoothing": 0.0, "average": 0.0}),
        ("ocr", {"algorithm": "searnn"}, {"cross_entropy_weight": 0.0, "label_smoothing": None}),
        ("translation", {}, {"cross_entropy_weight": 0.3, "label_smoothing": 0.1, "average": 0.999, "dropout": 0.5}),
        ("translation", {"corpus": "iwslt14"}, {"cross_entropy_weight": 1.0, "label_smoothing": 0.1, "dropout": 0.3}),
        ("translation", {"train": ["a", "b"], "valid": ["a", "b"]}, {"cross_entropy_weight": 1.0, "dropout": 0.3}),
        ("translation", {"model": "transformer"}, {"cross_entropy_weight": 0.3, "dropout": 0.3}),
        ("translation", {"cross_entropy_weight": "0"}, {"label_smoothing": None, "average": 0.999}),
        ("translation", {"algorithm": "mle"}, {"label_smoothing": 0.1, "average": 0.999, "dropout": 0.5}),
        ("ocr", {"algorithm": "mle", "attention": "aligned"}, {"schedule": "constant", "average": 0.999}),
        ("ocr", {"algorithm": "mle", "attention": "none"}, {"schedule": "constant", "average": 0.0}),
        ("spelling", {"cross_entropy_weight": "1"}, {"label_smoothing": 0.0, "schedule": "cosine", "average": 0.0}),
        ("spelling", {"algorithm": "mle"}, {"schedule": "constant", "average": 0.999}),
        ("spelling", {"minutes": "1"}, {"schedule": "cosine", "average": 0.0, "eval_every": "none"}),
        ("spelling", {"minutes": "1", "patience": "5"}, {"schedule": "constant", "average": 0.999}),
        ("spelling", {"minutes": "1", "steps": "9"}, {"schedule": "constant", "eval_every": 500}),
        ("spelling", {"steps": "none", "patience": "5"}, {"schedule": "constant", "eval_every": 500}),
        ("g2p", {}, {"width": 256, "lr": 1e-3, "batch_size": 128, "schedule": "plateau", "average": 0.0}),
        ("g2p", {}, {"cross_entropy_weight": 0.0, "label_smoothing": None, "eval_every": 1000}),
        ("g2p", {"algorithm": "mle"}, {"label_smoothing": 0.0, "lr": 1e-3}),
    ],
)
def test_defaults_of_the_algorithms(task: str, settings: dict[str, Any], expected: dict[str, Any]):
    values = resolve(from_flags({"name": task, **settings})).flat()
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("budget", "schedule"),
    [
        ({}, "cosine"),
        ({"steps": "500"}, "cosine"),
        ({"minutes": "3"}, "cosine"),
        ({"minutes": "3", "patience": "4"}, "constant"),
        ({"steps": "500", "minutes": "3"}, "constant"),
        ({"steps": "500", "patience": "4"}, "constant"),
        ({"steps": "none", "patience": "4"}, "constant"),
        ({"steps": "500", "minutes": "none", "patience": "none"}, "cosine"),
    ],
)
def test_a_step_size_falls_to_an_end_that_is_known(budget: dict[str, str], schedule: str) -> None:
    values = resolve(from_flags({"name": "spelling", **budget})).flat()
    assert values["schedule"] == schedule


SMALL = {
    "width": 128, "dropout": 0.3, "lr": 3e-3, "average": 0.9999, "schedule": "constant", "batch_size": 64,
    "steps": 10_000, "eval_every": 250, "label_smoothing": 0.1, "bidirectional": True, "attention": "additive",
}  # fmt: skip


@pytest.mark.parametrize("given", [{"name": "pairs", **FILES}, {"name": "g2p", "language": "dut"}])
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"algorithm": "mle"}, SMALL),
        ({}, {**SMALL, "cross_entropy_weight": 1.0, "tokens": "top", "k": 5, "loss": "kl", "alpha": 3.0}),
        ({"minutes": "8"}, {**SMALL, "steps": "none", "eval_every": "none"}),
        ({"algorithm": "scheduled-sampling"}, {"lr": 3e-3, "average": 0.9999}),
        ({"algorithm": "reinforce"}, {"lr": 1e-3, "warm_up_lr": 1e-3, "average": 0.9999}),
        ({"model": "transformer"}, {"lr": 1e-3, "average": 0.9999}),
        ({"init_from": "runs/x"}, {"lr": 1e-3}),
    ],
)
def test_pairs_and_other_languages_share_a_recipe(
    given: dict[str, Any], settings: dict[str, str], expected: dict[str, Any]
) -> None:
    values = resolve(from_flags({**given, **settings})).flat()
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(("language", "form"), [("kor", "jamo"), ("khm", "nfd"), ("lav", "nfc")])
def test_syllables_are_taken_apart(language: str, form: str) -> None:
    assert resolve(from_flags({"name": "g2p", "language": language})).flat()["normalise"] == form


def test_own_files_take_the_place_of_public_data():
    values = resolve(from_flags({"name": "translation", **FILES})).flat()
    assert (values["corpus"], values["direction"], values["skip_bad_lines"]) == (None, None, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"algorithm": "reinforce"}, ("adam", 3e-4, 2250, 1e-3)),
        ({"algorithm": "reinforce", "lr": "0.01"}, ("adam", 0.01, 2250, 1e-3)),
        ({"algorithm": "reinforce", "optimizer": "sgd"}, ("sgd", 0.5, 2250, 0.5)),
        ({"algorithm": "reinforce", "warm_up": "0"}, ("adam", 3e-4, 0, None)),
        ({"algorithm": "bso"}, ("adam", 1e-3, 2250, 1e-3)),
        ({"algorithm": "bso", "attention": "none"}, ("sgd", 0.5, 2250, 0.5)),
        ({"algorithm": "reinforce", "attention": "none"}, ("adam", 3e-4, 2250, 1e-3)),
        ({"algorithm": "searnn", "warm_up": "7", "warm_up_lr": "0.1"}, ("adam", 1e-3, 7, 0.1)),
        ({"algorithm": "mle"}, ("adam", 1e-3, None, None)),
    ],
)
def test_a_warm_up_has_a_learning_rate_of_its_own(given: dict[str, str], expected: tuple[object, ...]) -> None:
    found = resolve(from_flags({"name": "ocr", **given})).flat()
    assert tuple(found[name] for name in ("optimizer", "lr", "warm_up", "warm_up_lr")) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"algorithm": "searnn"}, 5e-3),
        ({"algorithm": "dagger"}, 3e-3),
        ({"algorithm": "mle"}, 1e-3),
        ({"algorithm": "searnn", "lr": "0.002"}, 0.002),
        ({"algorithm": "searnn", "optimizer": "sgd"}, 0.5),
        ({"algorithm": "searnn", "model": "transformer"}, 1e-3),
        ({"algorithm": "searnn", "init_from": "r"}, 1e-3),
    ],
)
def test_random_weights_of_spelling_take_large_steps(given: dict[str, str], expected: float) -> None:
    assert resolve(from_flags({"name": "spelling", **given})).flat()["lr"] == expected
