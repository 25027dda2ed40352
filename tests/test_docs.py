"""The documentation is true: its Python runs, its commands run or parse, it names what exists, its links lead on."""

from __future__ import annotations

import inspect
import io
import re
import shlex
import subprocess
import sys
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
from searnn.config.applies import APPLIES, OWN
from searnn.config.registry import AXES, flag
from searnn.config.schema import TaskGroup
from searnn.tasks import store
from searnn.training import read_records
from tiny import copy_flags, ocr_flags, tiny_letters
from tiny_data import own_files, tiny_data

ROOT = Path(__file__).parents[1]
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*GUIDES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPERATORS = set("|<>;&")
DOCUMENT = re.compile(r" <<'END'\n.*?^END$", re.MULTILINE | re.DOTALL)  # a file that the shell is given in place
ids = {"ids": lambda page: page.name}


def blocks(page: Path, *languages: str) -> list[tuple[int, str]]:
    """The fenced blocks in one of the languages: the line where each begins, and its text."""
    text = page.read_text()
    found = [match for match in FENCE.finditer(text) if match[1] in languages]
    return [(text.count("\n", 0, match.start(2)), match[2]) for match in found]


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def split(command: str) -> list[str]:
    """The words and operators of a line for the shell, without its comment."""
    lexer = shlex.shlex(command.removeprefix("$ "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def commands() -> Iterator[tuple[Path, list[str]]]:
    """Every simple command of every shell block: comments, prompts, pipes, redirections and variables taken off."""
    for page in PAGES:
        for _, block in blocks(page, "bash", "console", "sh"):
            for line in DOCUMENT.sub("", block).replace("\\\n", " ").splitlines():
                words: list[str] = []
                for word in [*split(line), "|"]:
                    if not set(word) <= OPERATORS:
                        words += [word] if words or "=" not in word else []
                    elif words:
                        yield page, words
                        words = []


def run_shell(page: Path, sizes: list[str], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Run the shell blocks of a page: each line and what it printed. `sizes` are appended where something is trained.

    The shell runs what is not searnn; searnn runs in this process, which spares its start.
    """
    printed = []
    for _, block in blocks(page, "bash"):
        documents = iter(DOCUMENT.findall(block))
        for line in DOCUMENT.sub(" <<END", block).replace("\\\n", " ").splitlines():
            words = split(line)
            if "searnn" not in words:
                if words[0] != "python":  # the scripts of the repository run long
                    script = line.replace(" <<END", next(documents)) if " <<END" in line else line
                    subprocess.run(["bash", "-ec", script], check=True)
                continue
            arguments = words[words.index("searnn") + 1 :]
            feeder = line[: line.index("searnn")].rstrip().removesuffix("|")
            files = {sign: arguments[arguments.index(sign) + 1] for sign in "<>" if sign in arguments}
            arguments = arguments[: min((arguments.index(sign) for sign in files), default=None)]
            with Path("fed").open("wb") as fed:
                subprocess.run(["bash", "-ec", feeder], check=True, stdout=fed)
            out = io.StringIO()
            with Path(files.get("<", "fed")).open() as stdin, redirect_stdout(out), monkeypatch.context() as patch:
                patch.setattr(sys, "stdin", stdin)
                assert main([*arguments, *(sizes if arguments[0] == "train" else [])]) == 0, line
            printed.append((line, out.getvalue()))
    return printed


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
    # Values and combinations are right too; what is resumed has its files already.
    config = resolve(from_flags({**given, "name": parsed.task}), complete=not parsed.resume)
    assert config.task.name == parsed.task


def test_the_page_on_pairs_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # for the function that the page writes
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    printed = run_shell(ROOT / "docs" / "pairs.md", [], monkeypatch)
    sys.modules.pop("my_module", None)
    predicted = [(line, out.splitlines()) for line, out in printed if "searnn predict" in line]
    assert predicted[0][1] == ["nomel", "gif"]
    best = next(out for line, out in predicted if "--n-best 3 --scores" in line)
    assert [line.split("\t")[0] for line in best] == ["1"] * 3 + ["2"] * 3
    assert all(float(line.split("\t")[2]) <= 0 for line in best)
    skipped = next(out for line, out in predicted if "--skip-bad-lines" in line)
    assert skipped == ["nomel", "", "gif"]


TINY = "--steps 2 --width 8 --batch-size 2 --eval-every 2 --device cpu"


def test_the_commands_of_the_page_on_tasks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEARNN_DATA", str(tiny_data(tmp_path / "data")))
    monkeypatch.setattr(store, "_verify", lambda file, path: None)  # the tiny files are not the public ones
    own_files(tmp_path)
    printed = run_shell(ROOT / "docs" / "tasks.md", TINY.split(), monkeypatch)
    trained = {split(line)[2] for line, _ in printed if line.startswith("searnn train")}
    assert trained == set(AXES["task"]) - {"ocr", "pairs"}
    assert sum("searnn predict" in line for line, _ in printed) == len(trained)
    assert all(out for _, out in printed)


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
    assert {words[0] for words in SEARNN} == {"train", "eval", "predict", "bench", "data"}


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
    starts = (["train", "ocr"], ["train", "copy"], ["data", "list"], ["bench"])
    parsers = [make_parser().parse(words).parser for words in starts]
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
