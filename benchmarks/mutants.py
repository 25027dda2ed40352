"""Mutants of the core: small changes of its code, each of which a fast test must notice.

    python benchmarks/mutants.py [losses policies/learned.py ...] [--jobs 2] [--minutes 20] [--seconds 60]

mutmut makes the changes, of what stands in functions. They are tried here, since mutmut itself leaves out functions
with decorators, and chooses tests by functions, of which some are run by a thousand. The tests are collected and run
once, to see which lines each of them runs. Then every mutant is a fork of that process, in which the function gets the
changed code and the tests that run the changed line follow one another, the quickest first, until one fails.

Mutants are tried in random order, so what was tried when the time is up, or Ctrl-C pressed, is a fair sample. What
survives and is not in the list of `mutants.md` is printed, and is a failure. Results are kept in build/: of functions
that have not changed, mutants that were killed are not tried again.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import math
import os
import random
import re
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TextIO

import coverage
import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators, operator_arg_removal

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "searnn"
LISTED = ROOT / "benchmarks" / "mutants.md"
KEPT = ROOT / "build" / "mutants.jsonl"
CORE = ("losses", "costs", "oracles", "policies", "samplers", "searching", "algorithms")
TESTS = (
    "losses", "costs", "oracles", "best_suffix", "chunks", "policies", "samplers", "cell_samplers", "search",
    "waves", "softmax", "identities", "decoding", "warm_up", "algorithm*",
)  # fmt: skip
ENOUGH = 0.97  # the share that must be killed
KILLED = ("killed", "stuck")  # a test has failed, or did not end
FEW_SECONDS = 3  # of tests, at first: those that survive them are tried by more when all have had their turn
SPARE_SECONDS, TIMES_SLOWER = 5, 10  # of the processor: what a test may take before its mutant counts as stuck
SPARE_BYTES = 3 << 30
# Changes of these are for people to read, or are seen on another device alone.
NOT_CALLED = {"len", "isinstance", "span", "warn", "cast", "TypeVar"}
NOT_GIVEN = {"device", "non_blocking", "strict", "stacklevel"}


@dataclass(frozen=True)
class Mutant:
    """A function with one node changed."""

    path: Path
    function: str
    lines: range  # of the statement that holds the node, without statements inside
    node: cst.CSTNode
    changed: cst.CSTNode
    key: str  # holds as long as the function is as it is, and is the same for equal changes in it
    kind: str  # of the change, as mutmut calls it
    title: str  # how it is listed


class Finder(cst.CSTVisitor):
    """Every mutant of a module."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, path: Path, module: cst.Module) -> None:
        super().__init__()
        self.path, self.module, self.text = path, module, module.code.splitlines()
        self.scopes: list[cst.FunctionDef | cst.ClassDef] = []
        self.statements: list[tuple[int, int]] = []
        self.found: list[Mutant] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        """Make the mutants of a node, and say whether to look inside."""
        if isinstance(node, (cst.Annotation, cst.Decorator, cst.Raise, cst.Assert)) or self._is_for_people(node):
            return False
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.ExceptHandler)):
            self.statements.append(self._lines(node))
        if isinstance(node, cst.Parameters):
            return False  # the defaults are settings
        if self._inside() is not None and not isinstance(node, (cst.FunctionDef, cst.Module)):
            for kind, operator in mutation_operators:
                for changed in operator(node) if isinstance(node, kind) else ():
                    if operator is not operator_arg_removal or self._matters(node, changed):
                        self._note(node, changed, operator.__name__.removeprefix("operator_"))
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self.scopes.append(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if self.scopes and self.scopes[-1] is original_node:
            self.scopes.pop()
        if self.statements and isinstance(
            original_node, (cst.BaseSmallStatement, cst.BaseCompoundStatement, cst.ExceptHandler)
        ):
            self.statements.pop()

    def _inside(self) -> int | None:
        """The place among the scopes of the outermost function."""
        return next((place for place, scope in enumerate(self.scopes) if isinstance(scope, cst.FunctionDef)), None)

    def _is_for_people(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in NOT_CALLED:
            return True
        if isinstance(node, cst.Arg) and node.keyword is not None and node.keyword.value in NOT_GIVEN:
            return True
        return isinstance(node, cst.BaseString) and " " in self.module.code_for_node(node).strip()

    def _matters(self, node: cst.Call, changed: cst.Call) -> bool:
        """Whether an argument that was taken away is one that a test could miss."""
        kept = {id(argument) for argument in changed.args}
        gone = [argument for argument in node.args if id(argument) not in kept]
        named = {argument.keyword.value for argument in gone if argument.keyword is not None}
        return not named & NOT_GIVEN and not any("device" in self.module.code_for_node(each) for each in gone)

    def _lines(self, node: cst.CSTNode) -> tuple[int, int]:
        place = self.get_metadata(PositionProvider, node)
        last = place.end.line
        if isinstance(node, (cst.BaseCompoundStatement, cst.ExceptHandler)):
            last = max(place.start.line, self.get_metadata(PositionProvider, node.body).start.line - 1)
        return place.start.line, last

    def _note(self, node: cst.CSTNode, changed: cst.CSTNode, kind: str) -> None:
        outermost = self._inside()
        assert outermost is not None
        function = self.scopes[outermost]
        name = ".".join(scope.name.value for scope in self.scopes[: outermost + 1])
        old, new = (" ".join(self.module.code_for_node(each).split()) for each in (node, changed))
        code = hashlib.sha256(self.module.code_for_node(function).encode()).hexdigest()[:16]
        where = f"`{self.path.relative_to(SOURCE)}` `{name}`"
        place = self.get_metadata(PositionProvider, node)
        before, after = self.text[place.start.line - 1], self.text[place.end.line - 1]
        line = f"{before[: place.start.column].lstrip()}{difference(old, new)}{after[place.end.column :].rstrip()}"
        lines = range(self.statements[-1][0], self.statements[-1][1] + 1)
        title = f"{where}: `{line}`"
        self.found.append(
            Mutant(self.path, name, lines, node, changed, f"{where}: `{old}` → `{new}` {code}", kind, title)
        )


def difference(old: str, new: str) -> str:
    """The two as one, with what differs in brackets; words are not divided."""
    ours, theirs = (re.findall(r"\w+|[<>=!+*/&|^~%-]+|.", each) for each in (old, new))
    least = min(len(ours), len(theirs))
    first = next((place for place in range(least) if ours[place] != theirs[place]), least)
    last = next((place for place in range(least - first) if ours[-1 - place] != theirs[-1 - place]), least - first)
    middles = ("".join(words[first : len(words) - last]) for words in (ours, theirs))
    return f"{''.join(ours[:first])}[{' → '.join(middles)}]{''.join(ours[len(ours) - last :])}"


@cache
def module_of(path: Path) -> MetadataWrapper:
    """A file, parsed."""
    return MetadataWrapper(cst.parse_module(path.read_text(encoding="utf-8")), unsafe_skip_copy=True)


def mutants_of(path: Path) -> list[Mutant]:
    """Every mutant of a file."""
    wrapper = module_of(path)
    finder = Finder(path, wrapper.module)
    wrapper.visit(finder)
    return finder.found


def source_of(mutant: Mutant) -> str:
    """The file with the mutant in it."""
    changed: Any = module_of(mutant.path).module.deep_replace(mutant.node, mutant.changed)
    return str(changed.code)


def keys(mutants: Sequence[Mutant]) -> Iterator[str]:
    """A name for each that holds as long as its function is as it is."""
    seen: Counter[str] = Counter()
    for mutant in mutants:
        seen[mutant.key] += 1
        yield f"{mutant.key} {seen[mutant.key]}"


def codes(code: CodeType) -> Iterator[CodeType]:
    """A code and those inside."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)


class Held:
    """All functions of the library, by file and name: whoever holds one calls the code that it is given."""

    def __init__(self) -> None:
        self.functions: dict[tuple[str, str], list[FunctionType]] = defaultdict(list)
        self.caches = []
        gc.unfreeze()  # the tests freeze what they have imported, which would not be listed
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.startswith(str(SOURCE)):
                self.functions[each.__code__.co_filename, each.__code__.co_qualname].append(each)
            elif type(each).__name__ == "_lru_cache_wrapper" and str(each.__module__).startswith("searnn"):
                self.caches.append(each)

    def change(self, mutant: Mutant) -> None:
        """Give the function the changed code, and forget what was computed before."""
        whole = compile(source_of(mutant), str(mutant.path), "exec", dont_inherit=True)
        (code,) = (each for each in codes(whole) if each.co_qualname == mutant.function)
        holders = self.functions[str(mutant.path), mutant.function]
        assert holders, "nobody has the function"
        for function in holders:
            function.__code__ = code
        for each in self.caches:
            each.cache_clear()


class Trial:
    """As a plugin of pytest: in place of running the tests once, runs them for every mutant."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.failed = False
        self.seconds: dict[str, float] = {}
        self.killers: dict[str, list[str]] = defaultdict(list)
        self.outcomes: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a failure."""
        self.failed = self.failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure, then try all mutants."""
        if session.testsfailed:
            raise session.Failed("the tests cannot be collected")
        self.items = {item.nodeid: item for item in session.items}
        found = [mutants_of(path) for path in files(self.options.paths)]
        self.mutants = {key: mutant for each in found for key, mutant in zip(keys(each), each, strict=True)}
        kept = read_kept(self.options.results)
        self.outcomes = {key: kept[key] for key in self.mutants if key in kept and kept[key]["end"] in KILLED}
        again = [key for key in self.mutants if key not in self.outcomes]
        random.Random(self.options.seed).shuffle(again)
        print(f"{len(self.mutants)} mutants, {len(again)} to try, {len(self.items)} tests", flush=True)
        if again:
            self._measure()
            self.held = Held()
            with suppress(KeyboardInterrupt), self.options.results.open("a", encoding="utf-8") as stream:
                self._try(again, FEW_SECONDS, stream)
                left = [key for key in again if key in self.outcomes and self.outcomes[key]["end"] not in KILLED]
                self._try([key for key in left if self.outcomes[key]["tried"] < self.outcomes[key]["tests"]],
                          self.options.seconds, stream)  # fmt: skip
            gc.unfreeze()
        return True

    def _measure(self) -> None:
        """Run every test as it is: how long it takes, and which lines it runs."""
        watch = coverage.Coverage(data_file=None, source=[str(SOURCE)], config_file=False)
        watch.start()
        items = list(self.items.values())
        for item, following in zip(items, [*items[1:], None], strict=True):
            watch.switch_context(item.nodeid)
            began = time.process_time()
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            self.seconds[item.nodeid] = time.process_time() - began
            if self.failed:
                pytest.exit(f"{item.nodeid} fails as it is", returncode=2)
        watch.stop()
        self.data = watch.get_data()
        print(f"the tests take {sum(self.seconds.values()):.0f} s", flush=True)

    def _tests(self, mutant: Mutant, seconds: float) -> tuple[list[str], int]:
        """The tests to be tried, and how many there are: killers of the same function, then the quickest."""
        lines = self._lines(mutant.path)
        names = {name for line in mutant.lines for name in lines.get(line, ()) if name}
        killers = [name for name in self.killers[mutant.function] if name in names]
        ordered = killers + sorted(names - set(killers), key=self.seconds.__getitem__)
        spent, taken = 0.0, []
        for name in ordered:
            spent += self.seconds[name]
            if spent > seconds and taken:
                break
            taken.append(name)
        return taken, len(ordered)

    @cache  # noqa: B019  there is one
    def _lines(self, path: Path) -> dict[int, list[str]]:
        return self.data.contexts_by_lineno(str(path))

    def _try(self, again: list[str], seconds: float, stream: TextIO) -> None:
        """Try the mutants, `jobs` at once, by tests of so many seconds, and write down what became of each."""
        began, waiting, running = time.monotonic(), iter(again), {}
        late = math.inf if self.options.minutes is None else 60 * self.options.minutes
        gc.freeze()
        while True:
            while len(running) < self.options.jobs and time.monotonic() - began < late:
                key = next(waiting, None)
                if key is None:
                    break
                tests, count = self._tests(self.mutants[key], seconds)
                if not tests:
                    self.outcomes[key] = {"end": "not run", "by": "", "tried": 0, "tests": 0}
                    continue
                told, tell = os.pipe()
                child = os.fork()
                if child == 0:
                    self._child(self.mutants[key], tests, tell)
                os.close(tell)
                running[child] = key, told, len(tests), count
            if not running:
                return
            child, status = os.wait()
            key, told, tried, count = running.pop(child)
            with os.fdopen(told) as pipe:
                by = pipe.read()
            end = outcome(status, by)
            if end == "killed" and by in self.items:
                killers = self.killers[self.mutants[key].function]
                killers[:] = [by, *(name for name in killers if name != by)][:5]
            self.outcomes[key] = {"end": end, "by": by, "tried": tried, "tests": count}
            stream.write(json.dumps({"key": key, **self.outcomes[key]}) + "\n")
            stream.flush()
            if end not in KILLED or len(self.outcomes) % 100 == 0:
                print(f"{len(self.outcomes)}: {end} {self.mutants[key].title} ({tried} of {count} tests)", flush=True)

    def _child(self, mutant: Mutant, tests: Sequence[str], tell: int) -> None:
        """One mutant, in a process of its own, which this ends: 0 where all tests pass."""
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (now + SPARE_BYTES, -1))
            self.held.change(mutant)
            for name, following in zip(tests, [*tests[1:], None], strict=True):
                signal.setitimer(signal.ITIMER_PROF, SPARE_SECONDS + TIMES_SLOWER * self.seconds[name])
                item, after = self.items[name], None if following is None else self.items[following]
                item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
                if self.failed:
                    os.write(tell, name.encode())
                    os._exit(1)
            os._exit(0)
        except BaseException as error:
            os.write(tell, repr(error).encode())
            os._exit(3)


def outcome(status: int, by: str) -> str:
    """What became of a mutant."""
    if os.WIFSIGNALED(status):
        return "stuck" if os.WTERMSIG(status) == signal.SIGPROF else "killed"
    code = os.WEXITSTATUS(status)
    if code == 3:
        return f"not tried: {by}"
    return "killed" if code else "survived"


def read_kept(path: Path) -> dict[str, dict[str, Any]]:
    """What became of mutants in earlier passes, by key."""
    path.parent.mkdir(exist_ok=True)
    path.touch()
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line.pop("key"): line for line in lines}


def files(paths: Iterable[str]) -> Iterator[Path]:
    """The files of the parts that were named."""
    for name in paths:
        yield from sorted((SOURCE / name).rglob("*.py")) if (SOURCE / name).is_dir() else [SOURCE / name]


def listed() -> set[str]:
    """The mutants that are known to survive, with a reason."""
    return set(re.findall(r"^- (`.*)$", LISTED.read_text(encoding="utf-8"), re.MULTILINE))


def told(trial: Trial) -> int:
    """Print how many were killed, and what survived without a reason; the exit status."""
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    known, fresh = listed(), []
    for key, found in trial.outcomes.items():
        mutant = trial.mutants[key]
        kinds[mutant.kind][found["end"] if found["end"] in KILLED else "survived"] += 1
        if found["end"] not in KILLED and mutant.title not in known:
            fresh.append(f"- {mutant.title}: {found['end']} ({found['tried']} of {found['tests']} tests)")
    total = sum(kinds.values(), Counter())
    for kind, ends in [*sorted(kinds.items(), key=lambda pair: -pair[1].total()), ("all", total)]:
        share = 1 - ends["survived"] / ends.total()
        print(f"{kind:>34} {ends.total():6} mutants, {ends['survived']:4} survived, {share:6.1%} killed")
    print("\n".join(["", "Survivors that are not listed:", *fresh] if fresh else []))
    return 0 if total and total["survived"] <= (1 - ENOUGH) * total.total() and not fresh else 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants of the core, or of the files and folders that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=CORE, help="folders and files of src/searnn")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that are tried at once")
    parser.add_argument("--minutes", type=float, help="how long to try mutants, after the tests have run once")
    parser.add_argument("--seed", type=int, default=0, help="of the order in which they are tried")
    parser.add_argument("--seconds", type=float, default=30, help="the most that the tests of one mutant may take")
    parser.add_argument("--tests", nargs="*", help="test files, in place of those of the core")
    parser.add_argument("--results", type=Path, default=KEPT, help="where results are kept")
    options = parser.parse_args(arguments)
    names = options.tests or [str(path) for name in TESTS for path in sorted((ROOT / "tests").glob(f"test_{name}.py"))]
    trial = Trial(options)
    quiet = ["-oaddopts=", *(f"-pno:{name}" for name in ("terminal", "cacheprovider", "faulthandler")), "-s"]
    quiet += ["-m", "not slow and not gpu"]
    found = pytest.main([*quiet, f"--rootdir={ROOT}", f"-c{ROOT / 'pyproject.toml'}", *names], plugins=[trial])
    return int(found) or told(trial)


if __name__ == "__main__":
    sys.exit(main())
