"""Files of settings: checked as strictly as flags, naming what is wrong, and overridden by flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from config_cases import given, refusal

from searnn.config import merge, read
from searnn.config.registry import flag
from searnn.config.resolving import given_settings
from searnn.config.schema import GROUP_OF

WRONG = [  # a setting, as a flag, as in a file, and what is said
    ("k", "0", "0", "must be a whole number of at least 1"),
    ("k", "2.5", "2.5", "must be a whole number of at least 1"),
    ("alpha", "-1", "-1", "must be auto or a number of at least 0"),
    ("alpha", "nan", "nan", "must be auto or a number of at least 0"),
    ("alpha", "inf", "inf", "must be auto or a number of at least 0"),
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loss: [", "is not a YAML file: while parsing"),
        ("- a", "is not a YAML file of settings: expected sections, got list"),
        ("loss: {alhpa: 3}", "[loss] has no setting 'alhpa'; did you mean alpha?"),
        ("loss: {2: 3}", "[loss] has no setting '2'"),
        ("1: {2: 3}", "there is no section [1]"),
        ("loss: 3", "[loss] must be a section with settings"),
        ("search: {k: '5'}", "search.k must be a whole number of at least 1, got '5'"),
        ("search: {k: true}", "search.k must be a whole number of at least 1, got True"),
        ("loss: {alpha: !!python/name:os.system }", "is not a YAML file: could not determine a constructor"),
        ("\0", "is not a YAML file: unacceptable character"),
    ],
)
@pytest.mark.parametrize("suffix", ["yaml", "yml"])
def test_yaml_files_name_what_is_wrong(text: str, words: str, suffix: str, tmp_path: Path):
    path = tmp_path / f"settings.{suffix}"
    path.write_text(text)
    message = refusal(read, path)
    assert message.startswith(str(path))
    assert words in message


def test_yaml_says_what_toml_says(tmp_path: Path):
    (tmp_path / "one.toml").write_text('[run]\ncompile = "off"\n[optimisation]\nlr = 1e-3\nsteps = "none"\n')
    (tmp_path / "one.yaml").write_text("run:\n  compile: off\noptimisation:\n  lr: 1e-3\n  steps: none\n")
    assert read(tmp_path / "one.yaml") == read(tmp_path / "one.toml")
    (tmp_path / "empty.yaml").write_text("")
    assert given_settings(read(tmp_path / "empty.yaml")) == {}


def test_flags_override_files_and_whole_numbers_serve_as_fractions(tmp_path: Path):
    path = tmp_path / "settings.toml"
    path.write_text('[loss]\nalpha = 7\nloss = "js"\n[search]\nreference_probability = 1\n')
    merged = merge(read(path), given(alpha="2"))
    assert merged.loss.alpha == 2
    assert merged.loss.loss == "js"
    assert merged.search.reference_probability == 1.0
    assert set(given_settings(merged)) == {"name", "alpha", "loss", "reference_probability"}
