"""Which command runs, and how what goes wrong is said."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from searnn import __version__
from searnn.cli import bench, compare, data, evaluate, explain, headroom, predict, report, reproduce, train
from searnn.config.parser import Parser
from searnn.training.memory import shortage
from searnn.types import SearnnError

COMMANDS = (
    train,
    evaluate,
    predict,
    headroom,
    report,
    explain,
    compare,
    reproduce,
    bench,
    data,
)  # each adds its parser
UNREAD = 141  # the status of a command whose output nobody reads any more, as a shell has it


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""

    def command() -> int:
        parsed = make_parser().parse(arguments)
        status: int = parsed.command(parsed)
        return status

    return guarded(command)


def guarded(command: Callable[[], int]) -> int:
    """Run it; a user's mistake is one line on the error output and status 2, an interruption status 130."""
    _open_streams()
    try:
        return _told(command)
    except BrokenPipeError:  # whoever read the output, or what is said, has had enough
        return UNREAD
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # as rich tells of it
            return UNREAD
        raise
    finally:
        _let_go()


def _told(command: Callable[[], int]) -> int:
    """The status of the command, what goes wrong said."""
    try:
        try:
            status = command()
        finally:
            sys.stdout.flush()  # also where `--help` has ended it
        return status
    except SearnnError as error:
        return complain(str(error))
    except KeyboardInterrupt:
        print("searnn: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        full = "; free some space and try again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return complain(f"{where}{error.strerror or error}{full}")
    except Exception as error:
        if lack := shortage(error):
            return complain(lack)
        raise


def _open_streams() -> None:
    """Have something to print to: nothing where an output was closed, and what a terminal lacks as `\\xe9`."""
    sys.stdout = sys.stdout or io.StringIO()
    sys.stderr = sys.stderr or io.StringIO()
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _let_go() -> None:
    """Give up what cannot be written: Python would try again at its end, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def make_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(prog="searnn", description="Train sequence models on the metric you care about.")
    parser.add_argument("--version", action="version", version=f"searnn {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add(commands)
    return parser


def complain(message: str) -> int:
    """Say what is wrong in one line; the status of a user's mistake."""
    print(f"searnn: error: {' '.join(message.split())}", file=sys.stderr)
    return 2
