"""Outputs that are closed, unread or of ASCII alone, and Ctrl-C before anything is there: no traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from tiny import copy_flags
from tiny_runs import finished_runs

from searnn.cli import main

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="has no such pipes"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = finished_runs(tmp_path_factory.mktemp("runs"))
    (folder / "lines.txt").write_text("a b\n" * 2)
    return folder


COMMANDS = [
    ["--help"],
    ["--version"],
    ["train", "copy", "--help"],
    ["eval", "copy"],
    ["eval", "copy", "--json"],
    ["predict", "pairs", "--input", "lines.txt"],
    ["report", "copy", "--no-examples", "--out", "page.html"],
    ["explain", "copy", "--input", "0 1", "--out", "page.html"],
    ["data", "list"],
    ["bench", "--help"],
    ["train", "copy", "--nonsense"],
    copy_flags(Path("new")),
]  # fmt: skip


def forked(
    words: list[str], folder: Path, out: int | None, err: int | None, encoding: str = "utf-8"
) -> tuple[int, str]:
    """Run a command in a child with these outputs, None for one that is closed; its status, and what Python said."""
    said = folder / "said"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.chdir(folder)
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if err is None else err, 2)
            if out is not None:
                os.dup2(out, 1)
            sys.stdout = None if out is None else open(1, "w", encoding=encoding, closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)  # noqa: SIM115
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it
            try:
                status = main(words)
            except SystemExit as error:
                status = error.code if isinstance(error.code, int) else 0
            for stream in filter(None, (sys.stdout, sys.stderr)):  # as Python does at its end
                stream.flush()
        except BaseException:
            said.write_text(traceback.format_exc())
            status = 99
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, said.read_text() if said.exists() else ""


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nobody_reads_what_is_printed(words: list[str], runs: Path, tmp_path: Path):
    """As with `| head -0`: status 141 where something was to be printed there, as a shell has it."""
    ours, theirs = os.pipe()
    os.close(ours)
    for err in (None, theirs):
        place = tmp_path / ("out" if err is None else "both")
        place.mkdir()
        for name in ("copy", "pairs", "lines.txt"):
            (place / name).symlink_to(runs / name)
        status, said = forked(words, place, theirs, err)
        assert "Traceback" not in said
        assert status == 141 or (status, words[-1]) in ((2, "--nonsense"), (0, "--help"))  # argparse passes over it
    os.close(theirs)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_closed_output_and_an_ascii_terminal(words: list[str], runs: Path, tmp_path: Path):
    for name in ("copy", "pairs", "lines.txt"):
        (tmp_path / name).symlink_to(runs / name)
    expected = 2 if words[-1] == "--nonsense" else 0
    status, said = forked(words, tmp_path, None, None)
    assert (status, "Traceback" in said) == (expected, False)
    for path in (tmp_path / "new").glob("*"):
        path.rename(tmp_path / f"earlier-{path.name}")
    with (tmp_path / "printed").open("wb") as printed:
        status, said = forked(words, tmp_path, printed.fileno(), None, "ascii")
    assert (status, "Traceback" in said) == (expected, False)
    assert (tmp_path / "printed").read_bytes().isascii()


def test_what_a_terminal_lacks_is_written_as_its_code(runs: Path, tmp_path: Path):
    name = "r\u00e9sum\u00e9"
    (tmp_path / name).symlink_to(runs / "copy")
    with (tmp_path / "printed").open("wb") as printed:
        assert forked(["eval", name], tmp_path, printed.fileno(), None, "ascii")[0] == 0
    assert b"r\\xe9sum\\xe9: test, beam 1" in (tmp_path / "printed").read_bytes()


@pytest.mark.parametrize(
    "program", [["-m", "searnn.cli"], ["-c", "import sys; from searnn.cli import main; sys.exit(main())"]]
)
def test_ctrl_c_while_everything_is_imported(program: list[str], tmp_path: Path):
    """At once and in silence, by the signal itself, which a shell shows as 130."""
    command = [sys.executable, "-v", *program, "--version"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:  # what is imported is told with -v
            if line.startswith("import 'torch._C"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" not in rest


def test_too_many_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for number in ("1000000000", "1025", "0"):
        assert main([*copy_flags(tmp_path / "run"), "--threads", number]) == 2
        told = f"--threads must be auto or a whole number of at least 1 and at most 1024, got '{number}'"
        assert told in capsys.readouterr().err
        assert main(["bench", "ocr", "--threads", number]) == 2
        assert f"must be a whole number from 1 to 1024, got '{number}'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
