"""Where the time of a step goes: the spans that the library and the steps here name, read with torch's profiler."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import torch
from torch.profiler import DeviceType, ProfilerActivity, profile, record_function

PREFIX = "searnn."
WHOLE = "step"
PHASES = ("encode", "roll-in", "trace", "branch", "roll-out", "cost", "loss", "backward", "optimiser", "other")

Span = tuple[str, int, int]  # its name, and when it begins and ends, in nanoseconds


def breakdown(step: Callable[[], object], device: torch.device) -> dict[str, float] | None:
    """Milliseconds of every phase of a step, which add up to those of the whole; None where the profiler saw none.

    On a GPU a span lasts from its first kernel to its last, and the whole from the first of all to the last. The
    backward pass then stays in this thread, as the profiler gives the kernels of another thread to no span.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # it would tell of every start and stop on the error output
    activities, kind = [ProfilerActivity.CPU], DeviceType.CPU
    if device.type == "cuda":
        activities, kind = [*activities, ProfilerActivity.CUDA], DeviceType.CUDA
    watch = profile(activities=activities, acc_events=True)  # some versions warn where it is False, for one cycle too
    with torch.autograd.set_multithreading_enabled(False), watch as watched:
        with record_function(PREFIX + WHOLE):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    assert watched.profiler is not None
    results = watched.profiler.kineto_results
    assert results is not None
    # `watched.events()` gives the same, but builds the tree of all operations first, which takes as long as many steps.
    events = [event for event in results.events() if event.device_type() == kind]
    named = [event for event in events if event.name().startswith(PREFIX)]
    spans = [(event.name().removeprefix(PREFIX), event.start_ns(), event.end_ns()) for event in named]
    if device.type == "cuda" and events:  # there a kernel may count for the innermost span around it alone
        spans = [span for span in spans if span[0] != WHOLE]
        spans.append((WHOLE, min(event.start_ns() for event in events), max(event.end_ns() for event in events)))
    return times(spans)


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
    """How the tables call a span; what they have no line for is other."""
    shown = name.replace("_", "-")
    return shown if shown in PHASES else "other"
