"""The documentation is true: its Python runs, its commands parse, it names what exists, its links lead somewhere."""

from __future__ import annotations

import inspect
import io
import re
import shlex
from argparse import Namespace
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

import searnn
from searnn import algorithms, costs, losses, models, oracles, policies, samplers, schedules, tasks
from searnn.cli import flags, main
from searnn.cli.main import make_parser
from searnn.config import from_flags, resolve
from searnn.config.registry import AXES
from searnn.training import read_records
from tiny import copy_flags, ocr_flags, tiny_letters

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*GUIDES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPERATORS = set("|<>;&")
ids = {"ids": lambda page: page.name}


def blocks(page: Path, *languages: str) -> list[tuple[int, str]]:
    """The fenced blocks in one of the languages: the line where each begins, and its text."""
    text = page.read_text()
    found = [match for match in FENCE.finditer(text) if match[1] in languages]
    return [(text.count("\n", 0, match.start(2)), match[2]) for match in found]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def commands() -> Iterator[tuple[Path, list[str]]]:
    """Every simple command of every shell block: comments, prompts, pipes, redirections and variables taken off."""
    for page in PAGES:
        for _, block in blocks(page, "bash", "console", "sh"):
            for line in block.replace("\\\n", " ").splitlines():
                lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
                lexer.whitespace_split = True
                words: list[str] = []
                for word in [*lexer, "|"]:
                    if not set(word) <= OPERATORS:
                        words += [word] if words or "=" not in word else []
                    elif words:
                        yield page, words
                        words = []


def run_blocks(page: Path) -> str:
    """Run the Python of a page, block after block in one namespace; what it printed."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = io.StringIO()
    with redirect_stdout(printed):
        for line, block in blocks(page, "python"):
            exec(compile("\n" * line + block, str(page), "exec", dont_inherit=True), namespace)
    return printed.getvalue()


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


SEARNN = list(dict.fromkeys(tuple(words[1:]) for _, words in commands() if words[0] == "searnn"))


@pytest.mark.parametrize("words", SEARNN, ids=" ".join)
def test_every_command_parses(words: tuple[str, ...]) -> None:
    parsed: Namespace = make_parser().parse([word for word in words if word != "--help"])
    if words[0] != "train":
        return
    given = {name: value for name, value in flags.given(parsed).items() if "my_module" not in str(value)}
    config = resolve(from_flags({**given, "name": parsed.task}))  # values and combinations are right too
    assert config.task.name == parsed.task


def test_the_commands_are_of_every_kind() -> None:
    assert {words[0] for words in SEARNN} == {"train", "eval", "predict", "data"}


def test_every_make_target_and_script_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page, words in commands():
        if words[0] == "make":
            assert set(words[1:]) <= targets, page
        if words[0].startswith("python") and words[1].endswith(".py"):
            script = (ROOT / words[1]).read_text()
            for word in words[2:]:
                assert not word.startswith("--") or f'"{word}"' in script, (page, word)


def test_every_flag_that_is_named_exists() -> None:
    parsers = [make_parser().parse(words).parser for words in (["train", "ocr"], ["train", "copy"], ["data", "list"])]
    parsers += [make_parser().parse([name, "RUN"]).parser for name in ("eval", "predict")]
    known = {option for parser in parsers for action in parser._actions for option in action.option_strings}
    for page in PAGES:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", prose(page)))
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
        assert target.startswith("https://") or (page.parent / target).is_file(), target
