"""What does not apply is refused, each setting somewhere, in one line that says where it belongs."""

from __future__ import annotations

from typing import Any

import pytest
from config_cases import FILES, given, refusal

from searnn.config import from_flags, registry, resolve
from searnn.config.applies import APPLIES
from searnn.config.registry import flag
from searnn.config.schema import DECLARED, GROUP_OF, MethodGroup
from searnn.settings import listed

ORACLE = "--roll-in mixed with --roll-in-mix-per token, or --roll-out reference, mixed or focused"
BLEU = "--bleu does not apply here: it belongs to --cost bleu, or --measure bleu-1 or bleu-4"
RECURS = " --model gru or lstm"
REFUSED = [
    ({"loss": "ll", "alpha": "3"}, "--alpha does not apply here: it belongs to --loss kl"),
    ({"loss": "hinge", "alpha": "auto"}, "auto is for --loss kl, reverse-kl or js"),
    (
        {"algorithm": "bandit-lols", "loss": "kl", "alpha": "auto"},
        "it belongs to algorithms other than bandit-lols, where it is auto",
    ),
    ({"loss": "kl", "alpha": "3", "target_entropy": "1"}, "it belongs to --alpha auto"),
    ({"dropout": "0", "search_dropout": "true"}, "--search-dropout does not apply here: it belongs to --dropout"),
    ({"dropout": "0.1", "classifier": "cell", "search_dropout": "true"}, "it belongs to --classifier network"),
    ({"loss": "kl", "ties": "model"}, "--ties does not apply here: it belongs to --loss ll, llcas or hinge"),
    ({"k": "5"}, "--k does not apply here: it belongs to --tokens uniform"),
    ({"tokens": "top:3", "k": "5"}, "--k does not apply here"),
    ({"tokens": "top:3+neighbours:2", "k": "5"}, "--k does not apply here"),
    ({"tokens": "top", "threshold": "0.5"}, "--threshold does not apply here: it belongs to --tokens targeted"),
    ({"tokens": "top", "boost": "0.5"}, "--boost does not apply here: it belongs to --tokens biased"),
    ({"n_cells": "3"}, "--n-cells does not apply here: it belongs to --cells uniform or uncertain"),
    ({"roll_out": "learned", "reference_probability": "0.5"}, "it belongs to --roll-out mixed"),
    ({"roll_out": "learned", "mix_per": "cell"}, "it belongs to --roll-out mixed"),
    ({"roll_in_reference_probability": "0.5"}, "it belongs to --roll-in mixed"),
    ({"roll_in_mix_per": "token"}, "it belongs to --roll-in mixed"),
    ({"temperature": "2"}, "--temperature does not apply here: it belongs to --roll-in sampled"),
    ({"focus_steps": "2"}, "it belongs to --roll-out focused"),
    ({"roll_out": "reference", "roll_out_beam": "2"}, "it belongs to --roll-out learned, mixed or focused"),
    ({"softmax": "vocabulary"}, "it belongs to --tokens other than all"),
    ({"tokens": "top", "softmax": "vocabulary", "default_cost": "1"}, "it belongs to --softmax default-cost"),
    ({"roll_out_length_penalty": "0"}, "it belongs to --roll-out-beam of at least 2"),
    ({"roll_in_length_penalty": "0"}, "it belongs to --roll-in-beam of at least 2"),
    ({"roll_out": "sampled", "roll_out_beam": "2"}, "it belongs to --roll-out learned, mixed or focused"),
    ({"roll_out": "learned", "roll_out_temperature": "2"}, "it belongs to --roll-out sampled"),
    ({"roll_in": "learned", "roll_in_mix_sampled": "true"}, "it belongs to --roll-in mixed"),
    ({"roll_out": "reference", "budget": "2"}, "it belongs to --roll-out learned, sampled, mixed or focused"),
    ({"roll_out": "learned", "oracle": "copy"}, f"--oracle does not apply here: it belongs to {ORACLE}"),
    ({"roll_in": "reference", "roll_out": "learned", "oracle": "optimal-edit"}, ORACLE),
    ({"roll_in": "mixed", "roll_out": "learned", "oracle": "optimal-edit"}, ORACLE),
    ({"roll_in": "mixed", "roll_in_mix_per": "example", "roll_out": "learned", "oracle": "copy"}, ORACLE),
    ({"cost": "exact", "normalised_cost": "false"}, "it belongs to --cost hamming or edit"),
    ({"cost": "bleu", "normalised_cost": "false"}, "it belongs to --cost hamming or edit"),
    ({"cost": "edit", "oracle": "copy", "bleu": "lin-och"}, BLEU),
    ({"cost": "gleu", "oracle": "optimal-edit", "bleu": "lin-och"}, BLEU),
    ({"cost": "chunk-f1", "roll_out": "learned", "bleu": "lin-och"}, BLEU),
    ({"oracle": "copy", "measure": "gleu"}, "--measure does not apply here: it belongs to --oracle best-suffix"),
    ({"oracle": "chunk-f1", "measure": "gleu"}, "--measure does not apply here: it belongs to --oracle best-suffix"),
    ({"roll_out": "learned", "measure": "gleu"}, f"--measure does not apply here: it belongs to {ORACLE}"),
    ({"tokens": "end", "k": "3"}, "--k does not apply here: it belongs to --tokens uniform, policy, biased, top"),
    ({"heads": "2"}, "--heads does not apply here: it belongs to --model transformer"),
    ({"model": "lstm", "heads": "2"}, "--heads does not apply here: it belongs to --model transformer"),
    ({"model": "conv-gru", "heads": "2"}, "--heads does not apply here: it belongs to --model transformer"),
    ({"feedforward": "8"}, "--feedforward does not apply here: it belongs to --model transformer"),
    ({"window": "3"}, "--window does not apply here: it belongs to --model conv-gru"),
    ({"model": "lstm", "window": "3"}, "--window does not apply here: it belongs to --model conv-gru"),
    ({"model": "transformer", "window": "3"}, "--window does not apply here: it belongs to --model conv-gru"),
    ({"model": "transformer", "bidirectional": "true"}, "--bidirectional does not apply here: it belongs to" + RECURS),
    ({"model": "conv-gru", "bidirectional": "true"}, "--bidirectional does not apply here: it belongs to" + RECURS),
    ({"model": "transformer", "attention": "additive"}, "--attention does not apply here: it belongs to" + RECURS),
    ({"model": "conv-gru", "attention": "additive"}, "--attention does not apply here: it belongs to" + RECURS),
    ({"model": "transformer", "embedding": "4"}, "it belongs to --model gru, lstm or conv-gru"),
    ({"label_smoothing": "0.1"}, "--label-smoothing does not apply here: it belongs to --cross-entropy-weight"),
    ({"cross_entropy_weight": "0", "label_smoothing": "0.1"}, "it belongs to --cross-entropy-weight"),
    ({"optimizer": "adam", "momentum": "0.9"}, "it belongs to --optimizer sgd"),
    ({"min_lr": "0.1"}, "it belongs to --schedule plateau, linear or cosine"),
    ({"schedule": "linear", "plateau_patience": "3"}, "it belongs to --schedule plateau"),
    ({"fold": "1"}, "--fold does not apply here: it belongs to the task ocr"),
    ({"steps": "none"}, "nothing would end the training"),
    ({"schedule": "cosine", "steps": "none", "patience": "3"}, "needs to know the end: give --steps or --minutes"),
    ({"eval_every": "none"}, "--eval-every none evaluates by time: give --minutes, or a number"),
    ({"schedule": "plateau", "lr": "0.1", "min_lr": "0.2"}, "--min-lr 0.2 is above the learning rate"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_what_does_not_apply_is_refused(settings: dict[str, str], words: str):
    assert words in refusal(lambda: resolve(given(**settings)))


OWN = "it belongs to files of your own, given with --train"
ONLY_TEXT = "it belongs to the task pairs, translation or g2p"
REFUSED_BY_TASK = [
    ("pairs", {}, "the task pairs needs --train: give one file with tabs, or two parallel ones"),
    ("pairs", {"valid": ["v"]}, f"--valid does not apply here: {OWN}"),
    ("pairs", {"train": ["t"]}, "the task pairs needs --valid: give one file with tabs, or two parallel ones"),
    ("pairs", {**FILES, "noise": "0.3"}, "--noise does not apply here: it belongs to the task spelling"),
    ("pairs", {**FILES, "benchmark": "true"}, "--benchmark does not apply here: it belongs to the task spelling"),
    ("pairs", {**FILES, "windows": "true"}, "--windows does not apply here: it belongs to the task spelling"),
    ("spelling", {"source_noise": "0.1"}, "--source-noise does not apply here: it belongs to the task pairs"),
    ("pairs", {**FILES, "stress": "true"}, "--stress does not apply here: it belongs to the task g2p"),
    ("pairs", {**FILES, "corpus": "multi30k"}, "--corpus does not apply here: it belongs to the task translation"),
    ("pairs", {**FILES, "direction": "de-en"}, "--direction does not apply here: it belongs to the task translation"),
    ("pairs", {**FILES, "data_seed": "1"}, "belongs to the task ocr, spelling, chunking or copy"),
    ("pairs", {**FILES, "data": "x"}, "--data does not apply here: it belongs to the task ocr"),
    ("pairs", {**FILES, "pieces": "9"}, "--pieces does not apply here: it belongs to --level or --target-level"),
    ("pairs", {**FILES, "level": "sentencepiece", "min_count": "2"}, "it belongs to --level chars or words"),
    ("pairs", {**FILES, "level": "sentencepiece", "max_vocab": "9"}, "it belongs to --level chars or words"),
    ("translation", {**FILES, "corpus": "tatoeba"}, "it belongs to the public data: leave --train out"),
    ("translation", {**FILES, "direction": "en-de"}, "it belongs to the public data: leave --train out"),
    ("translation", {"valid": ["v"]}, f"--valid does not apply here: {OWN}"),
    ("translation", {"test": ["t"]}, f"--test does not apply here: {OWN}"),
    ("translation", {"target_level": "chars"}, "--target-level does not apply here: it belongs to the task pairs"),
    ("translation", {"pieces": "9"}, "--pieces does not apply here: it belongs to --level or --target-level"),
    ("spelling", {"valid": ["v"]}, f"--valid does not apply here: {OWN}"),
    ("spelling", {"level": "words"}, "--level does not apply here: it belongs to the task pairs or translation"),
    ("spelling", {"max_length": "9"}, f"--max-length does not apply here: {ONLY_TEXT}"),
    ("spelling", {"metric": "error"}, f"--metric does not apply here: {ONLY_TEXT}"),
    ("chunking", {"test": ["t"]}, f"--test does not apply here: {OWN}"),
    ("chunking", {**FILES, "skip_bad_lines": "true"}, "it belongs to the task pairs, spelling, translation or g2p"),
    ("translation", {"corpus": "iwslt14", "min_count": "3"}, "--min-count does not apply here: it belongs to a vocab"),
    ("translation", {"corpus": "iwslt14", "max_vocab": "99"}, "--max-vocab does not apply here"),
    ("translation", {"cost": "gleu", "measure": "gleu", "bleu": "bahdanau"}, BLEU),
    ("chunking", {"metric": "error"}, f"--metric does not apply here: {ONLY_TEXT}"),
    ("g2p", {"train": ["t"]}, "--train does not apply here: it belongs to the task pairs, spelling, translation"),
    ("g2p", {"language": "dut", "stress": "true"}, "it belongs to the English dictionary: leave --language out"),
    ("pairs", {**FILES, "language": "dut"}, "--language does not apply here: it belongs to the task g2p"),
    ("translation", {"normalise": "nfd"}, "--normalise does not apply here: it belongs to the task pairs or g2p"),
    ("translation", {"features": "3"}, "--features does not apply here: it belongs to the task pairs"),
    ("g2p", {"target_normalise": "nfd"}, "--target-normalise does not apply here: it belongs to the task pairs"),
    ("g2p", {"min_count": "2"}, "--min-count does not apply here: it belongs to the task pairs or translation"),
    ("ocr", {"metric": "error"}, f"--metric does not apply here: {ONLY_TEXT}"),
    ("ocr", {"train": ["t"]}, "--train does not apply here"),
    ("copy", {"metric": "error"}, f"--metric does not apply here: {ONLY_TEXT}"),
]


@pytest.mark.parametrize(("task", "settings", "words"), REFUSED_BY_TASK)
def test_what_another_task_has_is_refused(task: str, settings: dict[str, Any], words: str):
    assert words in refusal(lambda: resolve(from_flags({"name": task, **settings})))


def test_every_setting_that_may_not_apply_is_refused_somewhere():
    """So that a new line of the table of rules gets its case."""
    tried = {name for settings, _ in REFUSED for name in settings}
    tried |= {name for _, settings, _ in REFUSED_BY_TASK for name in settings} | set(SEARCH)
    tried |= {name for settings, _ in OF_SOME for name in settings} | set(MethodGroup.model_fields)
    assert {"symbols", "length", "examples", "reverse", "split", "layers", "width", "plateau_factor"} == (
        set(APPLIES) - tried
    )


@pytest.mark.parametrize("name", ["symbols", "length", "examples", "reverse", "split"])
def test_settings_of_the_toy_and_of_ocr_are_refused_elsewhere(name: str):
    value = {"reverse": "true", "split": "words"}.get(name, "3")
    task = "ocr" if name == "split" else "copy"
    message = refusal(lambda: resolve(from_flags({"name": "spelling", name: value})))
    assert message == f"{flag(name)} does not apply here: it belongs to the task {task}"


def value_of(name: str) -> str:
    """Something that the setting may be."""
    words = DECLARED[name].choices
    switches = ("normalised_cost", "with_truth", "cost_weighted")
    return "0.5" if name in ("boost", "label_smoothing") else "true" if name in switches else words[0] if words else "1"


@pytest.mark.parametrize("name", [name for name in MethodGroup.model_fields if name != "algorithm"])
def test_what_belongs_to_another_algorithm_is_refused(name: str):
    takers = registry.takers("algorithm", name)
    assert takers
    other = "searnn" if "searnn" not in takers else "reinforce"
    assert other not in takers
    message = refusal(lambda: resolve(given(algorithm=other, **{name: value_of(name)})))
    assert message == f"{flag(name)} does not apply here: it belongs to --algorithm {listed(takers)}"
    for taker in takers:
        settings = {"algorithm": taker, name: value_of(name)}
        if (taker, name) == ("searnn", "label_smoothing"):
            settings["cross_entropy_weight"] = "0.5"
        assert resolve(given(**settings)).flat()[name] is not None


def test_label_smoothing_belongs_to_mle_and_to_searnn_with_cross_entropy():
    assert registry.takers("algorithm", "label_smoothing") == ["searnn", "mle"]
    for settings in (
        {"algorithm": "mle"},
        {"algorithm": "searnn", "cross_entropy_weight": "0.5"},
        {"algorithm": "searnn.algorithms:Mle"},  # of one's own, and without a weight
    ):
        assert resolve(given(label_smoothing="0.1", **settings)).flat()["label_smoothing"] == 0.1
    assert resolve(given(algorithm="searnn")).flat()["label_smoothing"] is None


OF_SOME = [
    ({"algorithm": "bso", "cost": "edit"}, "--cost does not apply here: it belongs to --cost-weighted"),
    ({"algorithm": "mrt", "normalisation": "sum"}, "does not apply here: it belongs to --algorithm searnn, mle"),
    ({"algorithm": "raml", "normalised_cost": "true"}, "it belongs to algorithms other than raml and ocd"),
    ({"warm_up_lr": "0.1"}, "--warm-up-lr does not apply here: it belongs to --warm-up"),
    ({"algorithm": "mle", "warm_up": "3"}, "--warm-up does not apply here: it belongs to algorithms other than mle"),
    ({"algorithm": "lols", "mix_per": "cell"}, "--mix-per does not apply here: it belongs to --algorithm searnn"),
    ({"algorithm": "lols", "roll_in": "learned"}, "--roll-in does not apply here: it belongs to --algorithm searnn"),
    ({"algorithm": "laso", "cost": "edit"}, "--cost does not apply here: it belongs to --algorithm searnn"),
    ({"algorithm": "reinforce", "oracle": "copy"}, "--oracle does not apply here: it belongs to --algorithm searnn"),
    ({"algorithm": "ocd", "oracle": "copy"}, "--oracle does not apply here: it belongs to --roll-in mixed with"),
    ({"algorithm": "searn", "measure": "gleu"}, "--measure does not apply here: it belongs to --oracle best-suffix"),
    ({"roll_out": "learned", "reference_probability": "0.5"}, "it belongs to --roll-out mixed, or --algorithm lols or"),
    ({"algorithm": "searnn", "classifier": "cell", "tau": "1"}, "--tau does not apply here"),
    ({"algorithm": "mixer", "label_smoothing": "0.1"}, "it belongs to --algorithm searnn or mle"),
    (
        {"algorithm": "ocd", "tau": "auto"},
        "--tau auto does not apply here: --algorithm ocd takes a number of at least 0, auto is for --algorithm raml",
    ),
    ({"algorithm": "mle", "cross_entropy_weight": "1"}, "it belongs to --algorithm searnn, mixer or actor-critic"),
]


@pytest.mark.parametrize(("settings", "words"), OF_SOME)
def test_what_an_algorithm_does_not_take_is_refused(settings: dict[str, str], words: str):
    assert words in refusal(lambda: resolve(given(**settings)))


def test_what_may_be_left_out_is_left_out():
    config = given(algorithm="mle", loss="ll", alpha="3", lr="0.1")
    found = resolve(config, optional={"loss", "alpha", "lr"}).flat()
    assert (found["loss"], found["alpha"], found["lr"]) == (None, None, 0.1)
    assert "--alpha does not apply here" in refusal(lambda: resolve(config, optional={"loss"}))


SEARCH = [name for name, group in GROUP_OF.items() if group in ("search", "loss") and name != "normalisation"]


@pytest.mark.parametrize("name", SEARCH)
def test_every_search_setting_is_refused_with_mle(name: str):
    message = refusal(lambda: resolve(given(algorithm="mle", **{name: value_of(name)})))
    assert "it belongs to --algorithm searnn" in message
