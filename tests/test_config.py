"""The configuration: complete, strict, the same from flags and files, and really arriving in what is built."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from searnn import costs, losses, oracles, policies, samplers, schedules
from searnn.config import build, from_flags, merge, read, resolve, write
from searnn.config.applies import APPLIES, obstacle
from searnn.config.building import knowledge, make_algorithm, make_cost, make_model, make_settings, make_task
from searnn.config.kinds import split_tokens
from searnn.config.messages import choices
from searnn.config.registry import AXES, flag
from searnn.config.resolving import given_settings
from searnn.config.schema import GROUP_OF, GROUPS, Config
from searnn.models import EncoderDecoder, Transformer
from searnn.models.cells import GruLayer, LstmLayer
from searnn.models.conv_encoder import ConvEncoder
from searnn.models.multihead import DecoderLayer
from searnn.tasks import Copy
from searnn.types import SearnnError, Vocabulary

VOCAB = Vocabulary(size=5, pad=5, bos=6, eos=4)
TAGS = ("O", "B-a", "I-a", "B-b")
FILES = {"train": ["train.tsv"], "valid": ["valid.tsv"]}  # nothing is read before the task is built
NEEDED = {"pairs": FILES}
MAY_BE_UNSET = {"data", "train", "valid", "test", "target_level"}  # the public data, or the same as for the sources


class Knowing(Copy):
    """A task that knows more of its tokens than their number."""

    knowledge: ClassVar[dict[str, Any]] = {"tags": TAGS, "unknown": 3}


TASK = Knowing(symbols=4, length=2, examples=10)


def given(**settings: Any) -> Config:
    return from_flags({"name": "copy", **settings})


def refusal(function: Any, *arguments: Any) -> str:
    with pytest.raises(SearnnError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_names_are_unique_and_described_in_one_line():
    assert len(GROUP_OF) == sum(len(model.model_fields) for model in GROUPS.values())
    for model in GROUPS.values():
        assert model.__doc__
        for name, field in model.model_fields.items():
            assert field.description, name
            assert "\n" not in field.description
            assert len(field.description) < 70, name
            assert field.default is None, name


@pytest.mark.parametrize("task", list(AXES["task"]))
def test_a_resolved_configuration_is_complete_and_stays_the_same(task: str, tmp_path: Path):
    config = resolve(from_flags({"name": task, **NEEDED.get(task, {})}))
    values = config.flat()
    for name, value in values.items():
        if name not in MAY_BE_UNSET:
            assert (value is None) == (obstacle(name, values) is not None), name
    assert resolve(config) == config
    write(config, tmp_path / "config.toml")
    assert read(tmp_path / "config.toml") == config
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_the_ocr_recipe_is_what_the_paper_found_best():
    values = resolve(from_flags({"name": "ocr"})).flat()
    expected = {
        "algorithm": "searnn", "loss": "kl", "alpha": 3.0, "roll_in": "learned", "roll_out": "mixed", "fold": 0,
        "reference_probability": 0.5, "mix_per": "example", "tokens": "all", "cells": "all", "cost": "hamming",
        "normalised_cost": False, "model": "gru", "width": 128, "attention": "none", "optimizer": "sgd", "lr": 0.5,
        "schedule": "constant", "batch_size": 64, "clip": 5.0, "normalisation": "batch", "steps": 20_000,
        "eval_every": 250, "patience": "none", "minutes": "none", "layers": 1, "bidirectional": False, "dropout": 0.0,
    }  # fmt: skip
    assert {name: values[name] for name in expected} == expected
    assert resolve(from_flags({"name": "ocr", "normalised_cost": "true"})).loss.alpha == 30
    assert resolve(from_flags({"name": "ocr", "optimizer": "adam"})).optimisation.lr == 1e-3
    assert resolve(from_flags({"name": "ocr", "minutes": "2"})).optimisation.steps == "none"


PAPER = {  # what the paper says of its runs, and what a task cannot do without
    "spelling": {
        "noise": 0.3, "cost": "edit", "normalised_cost": True, "loss": "ll", "roll_in": "learned", "roll_out": "mixed",
        "attention": "additive", "width": 100, "bidirectional": True, "batch_size": 128, "tokens": "all",
        "windows": False, "metric": None,
    },
    "translation": {
        "corpus": "multi30k", "direction": "de-en", "level": "words", "roll_in": "reference", "roll_out": "mixed",
        "cost": "bleu", "bleu": "leblond", "oracle": "best-suffix", "measure": "bleu-1", "alpha": 200.0, "loss": "kl",
        "tokens": "top:16+neighbours:11+end", "cells": "uniform", "n_cells": 20, "metric": "bleu", "train": None,
        "width": 256, "bidirectional": True, "dropout": 0.3, "attention": "additive", "min_lr": 1e-5,
    },
    "chunking": {"attention": "aligned", "oracle": "chunk-f1", "cost": "chunk-f1", "bleu": None, "steps": 6000},
    "g2p": {"stress": False, "metric": "per", "cost": "edit", "normalised_cost": False, "alpha": 3.0},
    "pairs": {"level": "chars", "metric": "error", "cost": "edit", "oracle": "copy", "alpha": 3.0, "max_vocab": "none"},
}  # fmt: skip


@pytest.mark.parametrize("task", list(PAPER))
def test_the_recipes_of_the_other_tasks(task: str):
    values = resolve(from_flags({"name": task, **NEEDED.get(task, {})})).flat()
    assert {name: values[name] for name in PAPER[task]} == PAPER[task]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"cost": "bleu"}, {"oracle": "best-suffix", "alpha": 200.0, "metric": "error", "bleu": "leblond"}),
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


def test_own_files_take_the_place_of_public_data():
    values = resolve(from_flags({"name": "translation", **FILES})).flat()
    assert (values["corpus"], values["direction"], values["skip_bad_lines"]) == (None, None, False)


ORACLE = "--roll-in mixed with --roll-in-mix-per token, or --roll-out reference, mixed or focused"
BLEU = "--bleu does not apply here: it belongs to --cost bleu or --oracle best-suffix"
RECURS = " --model gru or lstm"
REFUSED = [
    ({"loss": "ll", "alpha": "3"}, "--alpha does not apply here: it belongs to --loss kl"),
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
    ({"roll_out": "reference", "budget": "2"}, "it belongs to --roll-out learned, mixed or focused"),
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
    ({"label_smoothing": "0.1"}, "it belongs to --algorithm mle"),
    ({"optimizer": "adam", "momentum": "0.9"}, "it belongs to --optimizer sgd"),
    ({"min_lr": "0.1"}, "it belongs to --schedule plateau, linear or cosine"),
    ({"schedule": "linear", "plateau_patience": "3"}, "it belongs to --schedule plateau"),
    ({"fold": "1"}, "--fold does not apply here: it belongs to the task ocr"),
    ({"steps": "none"}, "nothing would end the training"),
    ({"schedule": "cosine", "minutes": "3"}, "--schedule cosine needs to know the end: give --steps"),
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
    ("pairs", {**FILES, "windows": "true"}, "--windows does not apply here: it belongs to the task spelling"),
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
    ("chunking", {"metric": "f1"}, f"--metric does not apply here: {ONLY_TEXT}"),
    ("g2p", {"train": ["t"]}, "--train does not apply here: it belongs to the task pairs, spelling, translation"),
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
    assert {"symbols", "length", "examples", "reverse", "split", "layers", "width", "dropout", "plateau_factor"} == (
        set(APPLIES) - tried
    )


@pytest.mark.parametrize("name", ["symbols", "length", "examples", "reverse", "split"])
def test_settings_of_the_toy_and_of_ocr_are_refused_elsewhere(name: str):
    value = {"reverse": "true", "split": "words"}.get(name, "3")
    task = "ocr" if name == "split" else "copy"
    message = refusal(lambda: resolve(from_flags({"name": "spelling", name: value})))
    assert message == f"{flag(name)} does not apply here: it belongs to the task {task}"


SEARCH = [name for name, group in GROUP_OF.items() if group in ("search", "loss") and name != "normalisation"]


@pytest.mark.parametrize("name", SEARCH)
def test_every_search_setting_is_refused_with_mle(name: str):
    words = choices(GROUPS[GROUP_OF[name]].model_fields[name])
    value = "0.5" if name == "boost" else "true" if name == "normalised_cost" else words[0] if words else "1"
    assert "it belongs to --algorithm searnn" in refusal(lambda: resolve(given(algorithm="mle", **{name: value})))


WRONG = [  # a setting, as a flag, as in a file, and what is said
    ("k", "0", "0", "must be a whole number of at least 1"),
    ("k", "2.5", "2.5", "must be a whole number of at least 1"),
    ("alpha", "-1", "-1", "must be a number of at least 0"),
    ("alpha", "nan", "nan", "must be a number of at least 0"),
    ("alpha", "inf", "inf", "must be a number of at least 0"),
    ("lr", "inf", "inf", "must be a number above 0"),
    ("dropout", "1", "1", "must be a number of at least 0 and below 1"),
    ("fold", "10", "10", "must be a whole number of at least 0 and at most 9"),
    ("loss", "hinje", '"hinje"', "did you mean hinge?"),
    ("model", "grru", '"grru"', "must be gru, lstm, transformer or conv-gru, or package.module:Name, got 'grru'"),
    ("model", "transfomer", '"transfomer"', "did you mean transformer?"),
    ("model", "my_module", '"my_module"', "or package.module:Name, got 'my_module'"),
    ("oracle", "best-sufix", '"best-sufix"', "did you mean best-suffix?"),
    ("cost", "blue", '"blue"', "did you mean bleu?"),
    ("bleu", "lin", '"lin"', "must be leblond, bahdanau or lin-och, got 'lin'"),
    ("measure", "bleu", '"bleu"', "must be bleu-1, bleu-4 or gleu, got 'bleu'; did you mean bleu-"),
    ("heads", "0", "0", "must be a whole number of at least 1"),
    ("noise", "1.5", "1.5", "must be a number of at least 0 and at most 1"),
    ("level", "char", '"char"', "must be chars, words or sentencepiece, got 'char'; did you mean chars?"),
    ("corpus", "multi", '"multi"', "must be multi30k, iwslt14 or tatoeba, got 'multi'; did you mean multi30k?"),
    ("direction", "fr-en", '"fr-en"', "must be de-en or en-de, got 'fr-en'"),
    ("max_vocab", "1", "1", "must be none or a whole number of at least 2"),
    ("train", [], "[]", "must be one or more paths of files"),
    ("clip", "0", "0", "must be none or a number above 0"),
    ("clip", "off", '"off"', "must be none or a number above 0"),
    ("budget", "x", '"x"', "must be auto or a whole number of at least 1"),
    ("reference_probability", "1.5", "1.5", "must be a number from 0 to 1 or a schedule"),
    ("reference_probability", "nan", "nan", "must be a number from 0 to 1"),
    ("reference_probability", "linear:0:2:9", '"linear:0:2:9"', "must be a number from 0 to 1"),
    ("reference_probability", "stepwise:0:0.1:9", '"stepwise:0:0.1:9"', "must be a number from 0 to 1"),
    ("reference_probability", "linear:0", '"linear:0"', "not written as linear:START:END:STEPS"),
    ("focus_steps", "1.5", "1.5", "must be a whole number of at least 0 or a schedule"),
    ("focus_steps", "-1", "-1", "must be a whole number of at least 0 or a schedule"),
    ("tokens", "top:0", '"top:0"', "is not a number of candidates"),
    ("tokens", "all:3", '"all:3"', "is not a number of candidates"),
    ("tokens", "top+end:3", '"top+end:3"', "is not a number of candidates"),
    ("tokens", "all+top:3", '"all+top:3"', "nothing can be joined"),
    ("tokens", "top:3+neigbours", '"top:3+neigbours"', "did you mean neighbours?"),
    ("tokens", "", '""', "must be all"),
    ("bidirectional", "perhaps", '"perhaps"', "must be true or false"),
    ("device", "gpu", '"gpu"', "must be auto, cpu, cuda or cuda:N"),
    ("seed", "-1", "-1", "must be a whole number of at least 0"),
]


@pytest.mark.parametrize(("name", "as_flag", "in_file", "words"), WRONG)
def test_files_are_checked_as_strictly_as_flags(name: str, as_flag: Any, in_file: str, words: str, tmp_path: Path):
    message = refusal(lambda: given(**{name: as_flag}))
    assert message.startswith(flag(name))
    assert words in message
    path = tmp_path / "settings.toml"
    path.write_text(f"[{GROUP_OF[name]}]\n{name} = {in_file}\n")
    message = refusal(read, path)
    assert message.startswith(f"{path}: {GROUP_OF[name]}.{name}")
    assert words in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[loss]\nalhpa = 3", "[loss] has no setting 'alhpa'; did you mean alpha?"),
        ("[search]\nalpha = 3", "'alpha' belongs in the section [loss], not in [search]"),
        ("alpha = 3", "'alpha' belongs in the section [loss]"),
        ("[serch]\nk = 3", "there is no section [serch]; did you mean search?"),
        ("loss = 3", "[loss] must be a section with settings"),
        ('[search]\nk = "5"', "search.k must be a whole number of at least 1, got '5'"),
        ("[search]\nk = true", "search.k must be a whole number of at least 1, got True"),
        ("[search]\nk = 5.0", "search.k must be a whole number of at least 1, got 5.0"),
        ("[search]\nreference_probability = true", "search.reference_probability must be"),
        ('[model]\nbidirectional = "yes"', "model.bidirectional must be true or false, got 'yes'"),
        ("[model]\nwidth = [8]", "model.width must be a whole number of at least 1, got [8]"),
        ("[model]\nmodel = 1", "model.model must be gru, lstm, transformer or conv-gru, or package.module:Name, got 1"),
        ("[model]\ncell = 'gru'", "[model] has no setting 'cell'"),
        ("[task]\ntrain = 'one.tsv'", "task.train must be one or more paths of files, got 'one.tsv'"),
        ("[task]\ntrain = [1]", "task.train must be one or more paths of files, got 1"),
        ("[loss]\nalpha = 1\nalpha = 2", "is not a TOML file"),
        ("k 5", "is not a TOML file"),
    ],
)
def test_files_name_what_is_wrong(text: str, words: str, tmp_path: Path):
    path = tmp_path / "settings.toml"
    path.write_text(text)
    message = refusal(read, path)
    assert message.startswith(str(path))
    assert words in message


def test_files_that_cannot_be_read(tmp_path: Path):
    assert "there is no file" in refusal(read, tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    assert "is not a TOML file" in refusal(read, tmp_path / "bytes.toml")


def test_flags_override_files_and_whole_numbers_serve_as_fractions(tmp_path: Path):
    path = tmp_path / "settings.toml"
    path.write_text('[loss]\nalpha = 7\nloss = "js"\n[search]\nreference_probability = 1\n')
    merged = merge(read(path), given(alpha="2"))
    assert merged.loss.alpha == 2
    assert merged.loss.loss == "js"
    assert merged.search.reference_probability == 1.0
    assert set(given_settings(merged)) == {"name", "alpha", "loss", "reference_probability"}


def at(node: Any, path: str) -> Any:
    """`roll_out.learned.beam` of an algorithm."""
    return reduce(getattr, path.split("."), node)


MIXED_IN = {"roll_in": "mixed"}
ARRIVES = [
    ({"roll_in": "reference"}, "roll_in", policies.Reference()),
    ({"roll_in": "learned"}, "roll_in", policies.Learned()),
    ({"roll_in": "sampled", "temperature": "2"}, "roll_in", policies.Sampled(temperature=2.0)),
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
    ({"loss": "llcas", "alpha": "2"}, "loss", losses.CostAugmentedLogLoss(alpha=2.0)),
    ({"loss": "hinge", "alpha": "2", "ties": "model"}, "loss", losses.HingeLoss(alpha=2.0, ties="model")),
    ({"loss": "consistent"}, "loss", losses.ConsistentLoss()),
    ({"loss": "reverse-kl", "alpha": "2"}, "loss", losses.ReverseKLLoss(alpha=2.0)),
    ({"loss": "js", "alpha": "2"}, "loss", losses.JSLoss(alpha=2.0)),
    ({"loss": "l2", "alpha": "2"}, "loss", losses.SquaredLoss(alpha=2.0)),
    ({"normalisation": "cell"}, "normalisation", "cell"),
    ({"classifier": "cell"}, "classifier", "cell"),
    ({"algorithm": "mle", "label_smoothing": "0.1"}, "label_smoothing", 0.1),
    ({"algorithm": "mle", "normalisation": "sum"}, "normalisation", "sum"),
]


@pytest.mark.parametrize(("settings", "path", "expected"), ARRIVES)
def test_a_setting_arrives_in_the_algorithm(settings: dict[str, str], path: str, expected: Any):
    config = resolve(given(**settings))
    assert at(make_algorithm(config, make_cost(config, TASK), knowledge(TASK)), path) == expected


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
        "min_lr": "0.01", "warmup": "3", "plateau_factor": "0.3", "plateau_patience": "7", "clip": "none",
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
    with pytest.raises(SearnnError, match=r"the metric of pairs is 'per', expected error, sequence_error, bleu"):
        make_task(resolve(from_flags({"name": "pairs", **files, "level": "words", "metric": "per"})))
