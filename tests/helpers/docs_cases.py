"""The pages of the documentation, and how their commands are run: in a folder of their own, on tiny data, shortly."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from searnn.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = [ROOT / "README.md", *sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "reference")]
PAGES = [*GUIDES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPERATORS = set("|<>;&")
DOCUMENT = re.compile(r" <<'END'\n.*?^END$", re.MULTILINE | re.DOTALL)  # a file that the shell is given in place
TINY = ["--steps", "2", "--width", "8", "--batch-size", "2", "--eval-every", "2", "--device", "cpu"]
LARGER = {"tutorial.md": ["--batch-size", "50"]}  # it has hundreds of pairs to evaluate
FEW = ["--seeds", "1", "--jobs", "1"]
MORE = ["--steps", "4"]  # of a run that is taken further, where nothing else may change

# Every command of a shell block is run, but for those that begin like this: the reason stands beside them.
NOT_RUN = {
    "make": "the checks themselves, and the demo, which trains for minutes",
    ".venv/bin/python benchmarks/mutants.py": "takes minutes; tests/test_mutants.py runs a small one",
    "pip install": "changes the environment that the tests run in",
    "export SEARNN_DATA": "there is no such folder here; the tiny data is there in its place",
    "searnn bench": "times full sizes for minutes; tests/test_bench_cli.py runs each of its options on small ones",
    "torchrun": "needs several GPUs or machines; tests/test_distributed_cli.py runs it with two processes",
    "searnn train copy --run runs/two --resume": "goes on with a run of torchrun's",
    "srun": "needs Slurm",
    "head=": "likewise",
    "python benchmarks": "measures for minutes; tests/test_bench_laboratory.py runs them on small sizes",
    ".venv/bin/python -m pytest": "the tests themselves",
}
# These start processes of their own, which takes long: the slow tests run them.
LONG = re.compile(r"searnn compare|searnn train .* --seeds ")
# So do they run what is much alike on these pages, all but two.
ALIKE = [page for folder in ("algorithms", "concepts", "results") for page in (DOCS / folder).glob("*.md")]
ALIKE += [DOCS / "results.md", DOCS / "troubleshooting.md"]
SLOW = {*ALIKE} - {DOCS / "algorithms" / "mrt.md", DOCS / "concepts" / "roll-out.md"}
REFUSED = re.compile(r"# refused: (.*)$")  # a command that must end with this message


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
                if REFUSED.search(line):
                    continue
                words: list[str] = []
                for word in [*split(line), "|"]:
                    if not set(word) <= OPERATORS:
                        words += [word] if words or "=" not in word else []
                    elif words:
                        yield page, words
                        words = []


def lines(page: Path) -> Iterator[tuple[str, str]]:
    """Every line of the shell blocks of a page, continued ones joined, and what the shell is given of it."""
    for _, block in blocks(page, "bash"):
        documents = iter(DOCUMENT.findall(block))
        for line in DOCUMENT.sub(" <<END", block).replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                yield line, line.replace(" <<END", next(documents)) if " <<END" in line else line


def has_long(page: Path) -> bool:
    """Whether a page has commands that only the slow tests run."""
    return any(LONG.match(line) for line, _ in lines(page))


def run_page(
    page: Path, monkeypatch: pytest.MonkeyPatch, *, shrink: bool = True, long: bool = False
) -> list[tuple[str, str]]:
    """Run the shell blocks of a page: each line and what it printed. `shrink` makes trainings tiny.

    The shell runs what is not searnn; searnn runs in this process, which spares its start.
    """
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    printed = []
    for line, script in lines(page):
        if line.startswith(tuple(NOT_RUN)) or (LONG.match(line) and not long):
            continue
        words = split(line)
        if "searnn" not in words:
            subprocess.run(["bash", "-ec", script], check=True)
            continue
        arguments = words[words.index("searnn") + 1 :]
        feeder = line[: line.index("searnn")].rstrip().removesuffix("|")
        files = {sign: arguments[arguments.index(sign) + 1] for sign in "<>" if sign in arguments}
        arguments = arguments[: min((arguments.index(sign) for sign in files), default=None)]
        if shrink and "--help" not in arguments:
            if arguments[0] == "compare" and "--minutes" in arguments:  # a few steps instead
                at = arguments.index("--minutes")
                del arguments[at : at + 2]
            arguments += shrinking(arguments, LARGER.get(page.name, []))
        with Path("fed").open("wb") as fed:
            subprocess.run(["bash", "-ec", feeder], check=True, stdout=fed)
        printed.append((line, run_line(line, arguments, files.get("<", "fed"), monkeypatch)))
    return printed


def shrinking(arguments: list[str], larger: list[str]) -> list[str]:
    """What makes a command short: the last of two equal flags counts."""
    command = arguments[0]
    if command == "reproduce":
        return ["--list"]  # it then prints the commands that it would run
    if command not in ("train", "compare") or "--resume" in arguments:
        return MORE if {"--resume", "--steps"} <= {*arguments} else []
    seeds = FEW if command == "compare" else ["--seeds", "2"] if "--seeds" in arguments else []
    return [*TINY, *larger, *seeds]


def run_line(line: str, arguments: list[str], stdin: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run one command in this process; what it printed, or why it was refused where the line says that it is."""
    out, err = io.StringIO(), io.StringIO()
    with Path(stdin).open() as fed, redirect_stdout(out), redirect_stderr(err), monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", fed)
        try:
            status = main(arguments)
        except SystemExit as end:  # --help
            status = int(end.code or 0)
    if refused := REFUSED.search(line):
        assert status == 2, line
        assert refused[1].strip() in err.getvalue(), (line, err.getvalue())
    else:
        assert status == 0, (line, out.getvalue(), err.getvalue())
    return out.getvalue()


def run_blocks(page: Path) -> str:
    """Run the Python of a page, block after block in one namespace; what it printed."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = io.StringIO()
    with redirect_stdout(printed):
        for line, block in blocks(page, "python"):
            exec(compile("\n" * line + block, str(page), "exec", dont_inherit=True), namespace)
    return printed.getvalue()
