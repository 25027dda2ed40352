"""Tables as their files describe them: which cells there are, and what each runs."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from reproduce_cases import PLAN

from searnn.cli import main
from searnn.config import from_flags, resolve
from searnn.data import sigmorphon
from searnn.jobs import experiments
from searnn.jobs.experiments import TableRow
from searnn.jobs.methods import own_settings
from searnn.types import SearnnError


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.setattr(experiments, "read", lambda name: PLAN)


def test_a_quick_look_may_have_fewer_columns(plan, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "read", lambda name: replace(PLAN, quick_columns=["MLE"]))

    def columns(*words):
        assert main(["reproduce", "table1", "--list", *words]) == 0
        return [line.split(":")[0].strip() for line in capsys.readouterr().out.splitlines() if "searnn train" in line]

    assert columns("--quick") == ["MLE", "MLE"]
    assert columns("--quick", "--only", "copy") == ["MLE"]
    assert columns("--only", "copy") == ["MLE", "KL, learned"]
    assert columns("--quick", "--only", "copy:kl") == ["KL, learned"]
    assert columns("--quick", "--only", "copy", "kl") == ["MLE", "KL, learned", "KL, learned"]
    assert len(columns()) == 4


def test_a_command_has_every_flag_once_as_it_is_given_last(plan, capsys):
    words = ["--settings", "--width=9 --steps 5 --no-reverse --data-seed 3"]
    assert main(["reproduce", "table1", "--list", "--quick", "--only", "copy:mle", *words]) == 0
    told = "searnn train copy --algorithm mle --eval-every 10 --examples 40 --device cpu --width=9 --steps 5"
    assert f"{told} --no-reverse --data-seed 3 --seed N" in capsys.readouterr().out


def test_single_cells_can_be_chosen(plan, capsys):
    column = next(iter(PLAN.columns))
    assert main(["reproduce", "table1", "--list", "--only", f"copy:{column.lower()}"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Copy")
    assert shown.count("searnn train") == 1


def test_a_whole_name_means_no_longer_one(plan, capsys, monkeypatch):
    wider = replace(PLAN, columns={**PLAN.columns, "MLE, wide": "mle --width 16"})
    monkeypatch.setattr(experiments, "read", lambda name: wider)
    for text, runs in (("mle", 2), ("copy:mle", 1), ("copy:ml", 2), ("Copy:MLE, wide", 1), ("wide", 2), ("copy", 3)):
        assert main(["reproduce", "table1", "--list", "--only", text]) == 0
        assert capsys.readouterr().out.count("searnn train") == runs


@pytest.mark.parametrize(
    "name", [name if name == "table1" else pytest.param(name, marks=pytest.mark.slow) for name in experiments.TABLES]
)
def test_the_tables_of_the_paper_can_be_run(name, capsys):
    """Every cell's settings are complete; every number of the paper stands at a cell that exists."""
    assert main(["reproduce", name, "--list"]) == 0
    table = experiments.read(name)
    listed = capsys.readouterr().out
    left_out = sum(len(row.without) for row in table.rows.values())
    assert listed.count("searnn train") == len(table.rows) * len(table.columns) - left_out
    assert main(["reproduce", name, "--list", "--quick"]) == 0
    for row in table.rows.values():
        assert {*row.paper, *row.own, *row.quick_own, *row.without, *table.quick_columns} <= set(table.columns)


def test_a_row_may_be_like_another(monkeypatch, tmp_path):
    text = """
title = "A table"
unit = "%"
scale = 100
[columns]
MLE = "mle"
[rows.One]
task = "copy"
settings = "--steps 3"
paper = { MLE = 1.5 }
[rows.Two]
like = "One"
settings = "--steps 4"
"""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "table1.toml").write_text(text)
    monkeypatch.setattr(experiments.searnn, "__file__", str(tmp_path / "__init__.py"))
    rows = experiments.read("table1").rows
    assert rows == {
        "One": TableRow("copy", "--steps 3", paper={"MLE": 1.5}),
        "Two": TableRow("copy", "--steps 4", paper={"MLE": 1.5}),
    }


def test_a_row_may_stand_for_many(monkeypatch, tmp_path):
    text = """
title = "A table"
unit = "%"
scale = 100
common = "--width 8"
[columns]
MLE = "mle"
[rows."copy of {length}"]
task = "copy"
settings = "--max-length {length}"
groups = ["short", "all"]
each = [{ length = 3, paper = 1.5 }, { length = 4, paper = 2.5 }]
[rows."copy of {length}, long"]
like = "copy of {length}"
groups = ["all"]
each = [{ length = 9 }]
[rows.plain]
task = "copy"
settings = "--width 16"
"""
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "table1.toml").write_text(text)
    monkeypatch.setattr(experiments.searnn, "__file__", str(tmp_path / "__init__.py"))
    table = experiments.read("table1")
    assert table.rows == {
        "copy of 3": TableRow("copy", "--max-length 3", paper={"MLE": 1.5}, groups=["short", "all"]),
        "copy of 4": TableRow("copy", "--max-length 4", paper={"MLE": 2.5}, groups=["short", "all"]),
        "copy of 9, long": TableRow("copy", "--max-length 9", groups=["all"]),
        "plain": TableRow("copy", "--width 16"),
    }
    assert table.groups == {"short": ["copy of 3", "copy of 4"], "all": ["copy of 3", "copy of 4", "copy of 9, long"]}
    assert table.settings("copy of 4", "MLE", False, []) == ["mle", "--width", "8", "--max-length", "4"]
    assert table.settings("plain", "MLE", False, []) == ["mle", "--width", "16"]


def test_the_tables_are_part_of_the_package():
    root = Path(__file__).parents[1]
    build = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert [Path(name).stem for name in build["force-include"]] == ["table1", "table2", "table3", "sigmorphon2021"]
    assert {path.stem for path in (root / "experiments").glob("*.toml")} == set(experiments.TABLES)
    assert all((root / name).is_file() for name in build["force-include"])


def test_a_table_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(experiments.searnn, "__file__", str(tmp_path / "a" / "b" / "searnn" / "__init__.py"))
    with pytest.raises(SearnnError, match="other experiments with a checkout"):
        experiments.read("table1")


@pytest.mark.parametrize(
    ("table", "row", "column", "expected"),
    [
        ("table1", "OCR", "MLE", {"label_smoothing": 0.0, "average": 0.0, "lr": 0.5}),
        ("table1", "OCR, aligned", "MLE", {"label_smoothing": 0.0, "average": 0.0, "schedule": "cosine"}),
        ("folds", "Fold 3", "MLE, aligned", {"label_smoothing": 0.0, "average": 0.0, "schedule": "cosine"}),
        ("folds", "Fold 3", "MLE, aligned, averaged", {"label_smoothing": 0.0, "average": 0.999}),
        ("ocr", "OCR", "aligned, MLE, constant", {"label_smoothing": 0.0, "average": 0.0, "schedule": "constant"}),
        ("ocr", "OCR", "aligned, MLE, averaged, smoothing", {"label_smoothing": 0.1, "average": 0.999}),
        ("algorithms", "OCR", "SEARNN", {"eval_every": 250, "schedule": "constant", "steps": "none"}),
        ("algorithms", "Spelling 0.5", "SEARNN", {"eval_every": 250, "schedule": "constant", "average": 0.0}),
    ],
)
def test_tables_that_were_measured_keep_their_settings(
    table: str, row: str, column: str, expected: dict[str, object]
) -> None:
    found = experiments.read(table)
    given = own_settings(found.rows[row].task, found.settings(row, column, False, []))
    values = resolve(from_flags({**given, "name": found.rows[row].task})).flat()
    assert {name: values[name] for name in expected} == expected


def test_languages_without_test_words_say_so() -> None:
    table = experiments.read("sigmorphon2021")
    found = {}
    for row, about in table.rows.items():
        words = about.settings.split()
        language = words[words.index("--language") + 1]
        found[language] = set(about.paper.values())
        assert row.endswith("(dev)") == ("test" not in sigmorphon.LANGUAGES[language])
        assert row.startswith("low, ") == sigmorphon.LANGUAGES[language]["train"].startswith("low/")
    assert {*found, "eng_us"} == {*sigmorphon.LANGUAGES}
    assert found["dut"] == {14.7}  # on test words
    assert found["slv"] == {43}  # on development words
    published = {group: sum(table.rows[row].paper["MLE"] for row in rows) for group, rows in table.groups.items()}
    assert published["low, with test words"] == pytest.approx(22 + 21 + 12 + 19 + 34)
    on_development = 10 * 22.40 - (22 + 5 + 11 + 22 + 34)  # of the others, by the mean of all ten
    assert published["low, all"] == pytest.approx(on_development + published["low, with test words"])


def test_no_development_word_chooses_the_model_that_it_judges() -> None:
    table = experiments.read("sigmorphon2021")
    for row in table.rows:
        words = table.settings(row, "MLE", False, [])
        steps, every = (words[words.index(flag) + 1] for flag in ("--steps", "--eval-every"))
        assert (steps == every) == row.endswith("(dev)"), row  # one evaluation, at the end
