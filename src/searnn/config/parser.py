"""Argument parsing in the project's manner: one-line errors with a suggestion, one line of help per option."""

from __future__ import annotations

import argparse
import math
import shlex
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from searnn.config.registry import suggestion
from searnn.devices import MOST_THREADS
from searnn.types import SearnnError


class Formatter(argparse.HelpFormatter):
    """As wide as the terminal, with the options' names in a wide first column."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=38, width=max(60, shutil.get_terminal_size((140, 24)).columns - 2))

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """`--[no-]x` for a switch with two sides."""
        if isinstance(action, argparse.BooleanOptionalAction):
            return "--[no-]" + action.option_strings[0].removeprefix("--")
        return super()._format_action_invocation(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Prose is wrapped; indented lines after it stay as they are, each wrapped under its second column."""
        prose, _, table = text.partition("\n\n  ")
        if not table:
            return super()._fill_text(text, width, indent)
        lines = [super()._fill_text(prose, width, indent), ""]
        for line in f"  {table}".splitlines():
            lines += textwrap.wrap(line, width, initial_indent=indent, subsequent_indent=f"{indent}{'':22}")
        return "\n".join(lines)


class Help(argparse.Action):
    """Prints the help, as it is after the options that stand before it, and leaves.

    Options that are wrong are refused after it, which then has the defaults without them.
    """

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: Any) -> NoReturn:
        """Called by argparse where it finds the flag."""
        wrong: Exception | None = None
        try:
            if isinstance(parser, Parser) and parser.renew is not None:
                parser.renew(namespace)
        except (SearnnError, OSError) as error:
            wrong = error
        parser.print_help()
        if wrong is not None:
            raise wrong
        parser.exit()


class Parser(argparse.ArgumentParser):
    """A parser that raises instead of leaving, takes no abbreviations and knows what was probably meant."""

    def __init__(self, *, with_help: bool = True, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": Formatter, "add_help": False, **settings})
        if with_help:
            told = "show this and exit"
            self.add_argument("-h", "--help", action=Help, nargs=0, default=argparse.SUPPRESS, help=told)
        self.fill: Callable[[], None] | None = None  # adds what is costly to add, once this parser is needed
        self.extend: Callable[[Sequence[str]], None] | None = None  # by what the words name
        self.own: dict[str, Any] = {}  # settings of the user's own parts that were added so
        self.missed: SearnnError | None = None  # why those of some part were not
        self.renew: Callable[[argparse.Namespace], None] | None = None  # of the help, by what was given before it

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse what is known, as argparse does."""
        if self.fill is not None:
            self.fill()
            self.fill = None
        if self.extend is not None:
            words = list(sys.argv[1:] if args is None else args)
            self.extend(words[: min((words.index(word) for word in ("-h", "--help") if word in words), default=None)])
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong as the user's mistake."""
        raise SearnnError(f"{message} (see {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown word of a list, with the one that was probably meant."""
        if value == []:  # nothing was given for a list that may be empty; not every Python passes over it
            return
        if action.choices is not None and value not in action.choices:
            known = [str(choice) for choice in action.choices]
            name = action.metavar or action.dest
            raise SearnnError(f"{name} must be one of {', '.join(known)}, got {value!r}{suggestion(str(value), known)}")

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """Parse everything; what is not known is refused with a suggestion."""
        given = list(sys.argv[1:] if arguments is None else arguments)
        parsed: argparse.Namespace
        parsed, unknown = self.parse_known_args(given)
        if unknown:
            parser: argparse.ArgumentParser = vars(parsed).get("parser", self)
            if isinstance(parser, Parser) and parser.missed is not None:
                raise parser.missed
            first = unknown[0].partition("=")[0]
            options = [option for action in parser._actions for option in action.option_strings]
            what = "flag" if first.startswith("-") else "argument"
            parser.error(f"there is no {what} {first}{suggestion(first, options)}")
        parsed.words = given
        return parsed


def count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def threads(text: str) -> int:
    """How many threads: no more than any machine has."""
    if not text.isdecimal() or not 1 <= int(text) <= MOST_THREADS:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {MOST_THREADS}, got {text!r}")
    return int(text)


def whole(text: str) -> int:
    """A whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 0, got {text!r}")
    return int(text)


def counts(text: str) -> list[int]:
    """Whole numbers of at least 1 with commas between them."""
    return [count(part) for part in text.split(",")]


def power(text: str) -> float:
    """A finite number of at least 0."""
    with suppress(ValueError):
        if 0 <= (value := float(text)) < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"must be a number of at least 0, got {text!r}")


def flag_words(text: str) -> list[str]:
    """Flags with their values, as a shell splits them."""
    with suppress(ValueError):  # a quotation that does not end
        words = shlex.split(text)
        if not words or words[0].startswith("--"):
            return words
    raise argparse.ArgumentTypeError(f"must be flags with their values, such as '--steps 500 --lr 0.01', got {text!r}")
