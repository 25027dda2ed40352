"""The entry: which command runs, and how what goes wrong is said."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Sequence

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""

    def command() -> int:
        parsed = make_parser().parse(arguments)
        status: int = parsed.command(parsed)
        return status

    return guarded(command)


def guarded(command: Callable[[], int]) -> int:
    """Run it; a user's mistake is one line on the error output and status 2, an interruption status 130."""
    try:
        status = command()
        sys.stdout.flush()
        return status
    except SearnnError as error:
        return complain(str(error))
    except KeyboardInterrupt:
        print("searnn: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        full = "; free some space and try again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return complain(f"{where}{error.strerror or error}{full}")
    except Exception as error:
        if lack := shortage(error):
            return complain(lack)
        raise


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
