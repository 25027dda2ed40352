"""The defaults: what holds for every task, and for each task what the paper found best.

A value may be a function of the settings that stand before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

COMMON: dict[str, Any] = {
    "data_seed": 0,
    # model
    "cell": "gru",
    "attention": "none",
    "width": 128,
    "layers": 1,
    "bidirectional": False,
    "embedding": lambda values: values["width"],
    "dropout": 0.0,
    # method
    "algorithm": "searnn",
    "label_smoothing": 0.0,
    # search: learned roll-in, mixed roll-out with one coin per example, as the paper recommends
    "roll_in": "learned",
    "roll_in_reference_probability": 0.5,
    "roll_in_mix_per": "example",
    "temperature": 1.0,
    "roll_out": "mixed",
    "reference_probability": 0.5,
    "mix_per": "example",
    "focus_steps": 2,
    "roll_out_beam": 1,
    "oracle": "copy",
    "cost": "edit",
    "normalised_cost": True,
    "tokens": "all",
    "k": 5,
    "boost": 0.5,
    "threshold": 0.5,
    "cells": "all",
    "n_cells": 20,
    "budget": "auto",
    # loss
    "loss": "kl",
    "alpha": 30.0,
    "ties": "model",
    "normalisation": "batch",
    "classifier": "network",
    # optimisation
    "optimizer": "adam",
    "lr": lambda values: 0.5 if values["optimizer"] == "sgd" else 1e-3,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "schedule": "constant",
    "min_lr": 0.0,
    "warmup": 0,
    "plateau_factor": 0.5,
    "plateau_patience": 5,
    "clip": 5.0,
    "batch_size": 64,
    "minutes": "none",
    "steps": lambda values: 20_000 if values["minutes"] == "none" else "none",
    "patience": "none",
    "eval_every": 250,
    # run
    "seed": 0,
    "device": "auto",
    "precision": "32-true",
    "tensorboard": False,
    "threads": "auto",
}

# The paper's OCR model is a GRU of 128 units trained by SGD with a step of 0.5. The cost is the number of wrong
# letters; divided by the word's length it needs an alpha about ten times as large for the same effect.
OCR: dict[str, Any] = {
    "fold": 0,
    "split": "fold",
    "cost": "hamming",
    "normalised_cost": lambda values: values["cost"] != "hamming",
    "alpha": lambda values: 30.0 if values["normalised_cost"] else 3.0,
    "optimizer": "sgd",
}

# A toy that trains in a minute: short sequences, a small model.
COPY: dict[str, Any] = {
    "symbols": 10,
    "length": 8,
    "examples": 1000,
    "reverse": False,
    "width": 64,
    "batch_size": 32,
    "steps": lambda values: 2_000 if values["minutes"] == "none" else "none",
    "eval_every": 100,
}

TASKS: dict[str, dict[str, Any]] = {"ocr": OCR, "copy": COPY}


def default(name: str, values: Mapping[str, Any]) -> Any:
    """The recipe's value of one setting, given those that stand before it."""
    recipe = TASKS.get(values["name"], {})
    value = recipe.get(name, COMMON.get(name))
    return value(values) if callable(value) else value
