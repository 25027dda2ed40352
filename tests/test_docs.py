"""The documentation is true: its Python runs, its commands parse, it names what exists, its links lead on."""

from __future__ import annotations

import inspect
import re
from argparse import Namespace
from pathlib import Path

import pytest
from docs_cases import GUIDES, PAGES, ROOT, SLOW, blocks, commands, prose, run_blocks
from tiny import copy_flags, ocr_flags, tiny_letters
from tiny_data import tiny_data

import searnn
from searnn import algorithms, costs, losses, models, oracles, policies, samplers, schedules, tasks
from searnn.cli import main
from searnn.cli.program import make_parser
from searnn.config import flags, from_flags, resolve
from searnn.config.applies import APPLIES, OWN
from searnn.config.registry import AXES, flag
from searnn.config.schema import TaskGroup
from searnn.data import store
from searnn.training import read_records

ids = {"ids": lambda page: str(page.relative_to(ROOT))}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, with a trained run of the toy task."""
    monkeypatch.chdir(tmp_path)
    assert main(copy_flags(Path("runs/copy-searnn-1"))) == 0
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], **ids)
def test_every_python_block_runs(page: Path, folder: Path) -> None:
    assert folder.is_dir()
    printed = run_blocks(page)
    if page.name == "README.md":
        errors = [float(number) for number in re.findall(r"'error': ([\d.]+)", printed)]
        assert len(errors) == 5
        assert errors[-1] < errors[0] / 4


def test_the_readmes_example_is_short() -> None:
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example[1].splitlines()) <= 25


SEARNN = {tuple(words[1:]): page for page, words in commands() if words[0] == "searnn"}
LATER = [words for words, page in SEARNN.items() if page in SLOW or words[0] in ("bench", "compare")]


@pytest.mark.parametrize("words", LATER, ids=" ".join)
def test_every_command_that_the_slow_tests_run_parses(words: tuple[str, ...]) -> None:
    parsed: Namespace = make_parser().parse([word for word in words if word != "--help"])
    if words[0] != "train":
        return
    given = {name: value for name, value in flags.given(parsed).items() if "my_module" not in str(value)}
    if parsed.config or given["init_from"]:
        return
    # Values and combinations are right too; what is resumed has its files already.
    config = resolve(from_flags({**given, "name": parsed.task}), complete=not parsed.resume)
    assert config.task.name == parsed.task


def test_the_tiny_data_has_every_file(tmp_path: Path) -> None:
    found = tiny_data(tmp_path)
    wanted = {f"{source.name}/{file.name}" for source in store.SOURCES.values() for file in source.files}
    assert {str(path.relative_to(found)) for path in found.rglob("*.*")} == wanted


def test_every_data_set_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "data.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(store.SOURCES)


@pytest.mark.parametrize("task", list(AXES["task"]))
def test_every_setting_of_a_task_is_in_its_section(task: str) -> None:
    def its_own(name: str) -> bool:
        needed = [name, "train"] if OWN in APPLIES.get(name, ()) else [name]
        return all(APPLIES[part][0].holds({"name": task}) for part in needed)

    settings = [name for name in TaskGroup.model_fields if name in APPLIES and its_own(name)]
    assert settings
    page = ROOT / "docs" / (f"{task}.md" if task in ("ocr", "pairs") else "tasks.md")
    text = page.read_text()
    if page.name == "tasks.md":
        (text,) = [part for part in text.split("\n## ")[1:] if f"`{task}`" in part.splitlines()[0]]
    missing = [flag(name) for name in settings if not re.search(flag(name) + r"(?![\w-])", text)]
    assert not missing, missing


def test_the_commands_are_of_every_kind() -> None:
    named = {"train", "eval", "predict", "report", "explain", "headroom", "compare", "reproduce", "bench", "data"}
    assert {words[0] for words in SEARNN} == named


def test_every_make_target_and_script_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page, words in commands():
        if words[0] == "make":
            assert set(words[1:]) <= targets, page
        if words[0].startswith("python") and words[1].endswith(".py") and "/" in words[1]:
            script = (ROOT / words[1]).read_text()
            if "laboratory" in script:  # then its flags are those of `searnn bench`
                script += (ROOT / "src/searnn/cli/bench.py").read_text()
            for word in words[2:]:
                assert not re.fullmatch(r"--[\w-]+", word) or f'"{word}"' in script, (page, word)


def test_every_flag_that_is_named_exists() -> None:
    comparing = ["compare", "copy", "--algorithms", "mle"]
    starts = (["train", "ocr"], ["train", "copy"], comparing, ["data", "list"], ["bench"], ["reproduce", "table1"])
    parsers = [make_parser().parse(words).parser for words in starts]
    parsers += [
        make_parser().parse([name, "RUN"]).parser for name in ("eval", "predict", "headroom", "report", "explain")
    ]
    known = {option for parser in parsers for action in parser._actions for option in action.option_strings}
    for page in PAGES:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", prose(page)))
        assert named <= known, (page, named - known)


def in_code() -> set[str]:
    """Every word that stands between backticks, and every name that a Python block uses."""
    spans = [span for page in GUIDES for span in re.findall(r"`([^`\n]+)`", prose(page))]
    code = [block for page in GUIDES for _, block in blocks(page, "python")]
    return {word for text in [*spans, *code] for word in re.findall(r"[A-Za-z][\w-]*", text)}


AXIS_MODULES = [searnn, algorithms, costs, losses, models, oracles, policies, samplers, tasks]


@pytest.mark.parametrize("axis", AXIS_MODULES, ids=lambda axis: axis.__name__)
def test_every_member_of_every_axis_is_documented(axis: object) -> None:
    members = set(axis.__all__)  # type: ignore[attr-defined]
    assert members
    assert members <= in_code(), members - in_code()


def test_every_schedule_and_every_name_of_the_command_line_is_documented() -> None:
    kinds = {name for name, kind in vars(schedules).items() if inspect.isclass(kind) and hasattr(kind, "scheduled")}
    assert len(kinds) > 3
    names = {name for members in AXES.values() for name in members}
    assert kinds | names <= in_code(), (kinds | names) - in_code()


def test_every_number_of_a_run_is_explained(tmp_path: Path) -> None:
    data = tiny_letters(tmp_path / "letters.npz")
    assert main(ocr_flags(data, tmp_path / "run")) == 0
    recorded = set(read_records(tmp_path / "run" / "metrics.jsonl")[-1])
    section = (ROOT / "docs" / "ocr.md").read_text().split("## The numbers in `metrics.jsonl`")[1].split("\n## ")[0]
    first_column = [row.split("|")[1] for row in section.splitlines() if row.startswith("|")]
    explained = {word for cell in first_column for word in re.findall(r"`(\w+)`", cell)}
    assert recorded == explained


@pytest.mark.parametrize("page", PAGES, **ids)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose(page)):
        assert target.startswith("https://") or (page.parent / target).exists(), target
