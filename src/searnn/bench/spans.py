"""Where the time of a step goes: the spans that the library and the steps here name, read with torch's profiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import torch
from torch.profiler import DeviceType, ProfilerActivity, profile, record_function

PREFIX = "searnn."
WHOLE = "step"  # what of it lies in no other span is shown as "other"
PHASES = ("encode", "roll-in", "trace", "branch", "roll-out", "cost", "loss", "backward", "optimiser", "other")

Span = tuple[str, int, int]  # its name, and when it begins and ends, in nanoseconds


def breakdown(step: Callable[[], object], device: torch.device) -> dict[str, float] | None:
    """Milliseconds of every phase of a step, which add up to those of the whole; None where the profiler saw none.

    On a GPU a span lasts from its first kernel to its last. The backward pass then stays in this thread, as the
    profiler gives the kernels of another thread to no span.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would tell of every start and stop on the error output
    activities, kind = [ProfilerActivity.CPU], DeviceType.CPU
    if device.type == "cuda":
        activities, kind = [*activities, ProfilerActivity.CUDA], DeviceType.CUDA
    with torch.autograd.set_multithreading_enabled(False), profile(activities=activities) as watched:
        with record_function(PREFIX + WHOLE):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    assert watched.profiler is not None
    results = watched.profiler.kineto_results
    assert results is not None
    # `watched.events()` gives the same, but builds the tree of all operations first, which takes as long as many steps.
    found = [event for event in results.events() if event.name().startswith(PREFIX) and event.device_type() == kind]
    return times([(event.name().removeprefix(PREFIX), event.start_ns(), event.end_ns()) for event in found])


def times(spans: Iterable[Span]) -> dict[str, float] | None:
    """Milliseconds of every phase; what lies in a span within another one counts for the inner alone."""
    spent = dict.fromkeys(PHASES, 0.0)
    around: list[Span] = []
    for span in sorted(spans, key=lambda span: (span[1], -span[2])):
        name, began, ended = span
        while around and around[-1][2] < ended:
            around.pop()
        spent[phase(name)] += (ended - began) / 1e6
        if around:
            spent[phase(around[-1][0])] -= (ended - began) / 1e6
        around.append(span)
    return spent if around else None


def phase(name: str) -> str:
    """How the tables call a span."""
    return "other" if name == WHOLE else name.replace("_", "-")
