"""Cases tried one after the other in a forked child of bounded time and memory, and what is wrong with them."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from searnn.training.memory import SHORTAGE
from searnn.types import SearnnError

CPU = 20  # seconds of a case
WALL = 200  # seconds: one that waits uses no CPU, and a busy machine is slow
MEMORY = 2 << 30  # bytes more than when the child began
LONGEST = 3000  # characters of a message
AT_ONCE = 100  # cases of a child: a leak must not be taken for a case's own


@dataclass(frozen=True)
class Trial:
    """What a case does: opens something by a function, or runs a command, which may also answer.

    Settings that were damaged may ask for more memory than there is.
    """

    run: Callable[[], object]
    is_command: bool = False
    may_lack_memory: bool = False


def judged(make: Callable[[int], Trial], numbers: Iterator[int]) -> Iterator[tuple[int, str | None]]:
    """Each case's number and what is wrong with it, None where nothing is; the case is made in the child."""
    while batch := [number for _, number in zip(range(AT_ONCE), numbers, strict=False)]:
        while batch:
            number, fault = 0, None
            for number, fault in _in_child(make, batch):
                yield number, fault
            batch = [each for each in batch if each > number]  # those after one that ended the child


def _in_child(make: Callable[[int], Trial], numbers: list[int]) -> Iterator[tuple[int, str | None]]:
    """The verdicts on all of them, or on those up to the one by which the child came to its end."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        try:
            for number in numbers:
                fault = _tried(make, number)
                os.write(theirs, f"{number}\t{'-' if fault is None else ascii(fault)[1:-1]}\n".encode())
        finally:
            os._exit(0)
    os.close(theirs)
    left, held = list(numbers), b""
    with open(ours, "rb", buffering=0) as pipe:
        while left:
            ready = select.select([pipe], [], [], WALL)[0]
            got = pipe.read(1 << 16) if ready else b""
            if not got:
                break
            *lines, held = (held + got).split(b"\n")
            for line in lines:
                number, _, fault = line.decode().partition("\t")
                left.remove(int(number))
                yield int(number), None if fault == "-" else fault
    if left:
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if left:
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        told = {signal.SIGXCPU: f"it took more than {CPU} s of CPU", signal.SIGKILL: f"it took more than {WALL} s"}
        yield left[0], told.get(ended, f"it ended the process with status {status}")


def _tried(make: Callable[[int], Trial], number: int) -> str | None:
    """What is wrong with a case."""
    with tempfile.TemporaryFile("w+", errors="backslashreplace") as out, tempfile.TemporaryFile("w+") as err:
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        try:
            trial = make(number)
            _limit()
            return _fault(trial, err)
        finally:
            sys.stdout, sys.stderr = streams


def _limit() -> None:
    """Bound what this process may use from now on, its CPU time and its memory."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime)
    resource.setrlimit(resource.RLIMIT_CPU, (spent + CPU, resource.RLIM_INFINITY))
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        with open("/proc/self/statm") as about:
            now = int(about.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))


def _fault(trial: Trial, err: object) -> str | None:
    try:
        status = trial.run()
    except SearnnError as error:
        return f"it said {str(error)!r} and was no message" if trial.is_command else None
    except BaseException:
        return "".join(traceback.format_exc()[-3000:])
    if not trial.is_command:
        return None
    err.seek(0)
    said = err.read()
    if status not in (0, 2):
        return f"it ended with status {status}: {said[-500:]}"
    last = said.rstrip("\n").rpartition("\n")[2]
    if "Traceback" in said or (status == 2 and not last.startswith("searnn: error: ")) or len(last) > LONGEST:
        return f"it said {said[-1500:]}"
    return f"it used too much memory: {last}" if SHORTAGE in last and not trial.may_lack_memory else None
