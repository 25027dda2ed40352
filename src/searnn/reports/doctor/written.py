"""The doctor's look at what the best model writes: do outputs end in time, and do they depend on the input?"""

from __future__ import annotations

from collections import Counter

from searnn.reports.doctor.findings import Finding, listed
from searnn.reports.numbers import number, percent
from searnn.reports.outputs import Outputs
from searnn.reports.recorded import Recorded

ENOUGH = 20  # outputs, to say something of them
SHORT, LONG = 0.8, 1.25  # outputs' tokens over the truth's
ENDLESS = 0.1  # share of outputs that do not end
NOTHING = Recorded("", (), {}, None)  # a run of which no settings are known
SAME = 0.2  # share of outputs that are one and the same


def lengths(outputs: Outputs, run: Recorded = NOTHING) -> Finding | None:
    """Outputs that are shorter or longer than the truth."""
    written = sum(len(each.output) for each in outputs.written)
    true = sum(len(each.target) for each in outputs.written)
    if not true or SHORT <= written / true <= LONG:
        return None
    short = written < true
    title = f"Outputs are too {'short' if short else 'long'}: {number(written / true)} times the truth"
    return Finding(
        "length", "warning", title,
        f"They have {number(written / len(outputs.written))} tokens on average, the true ones "
        f"{number(true / len(outputs.written))}. "
        + ("The model ends too early." if short else "The model does not know when to end."),
        _or([*_ways(run), *(["use a cost that minds the length"] if run.setting("cost") is not None else [])]),
    )  # fmt: skip


def endless(outputs: Outputs, run: Recorded = NOTHING) -> Finding | None:
    """Outputs that fill all their room."""
    share = sum(each.full for each in outputs.written) / len(outputs.written)
    if share < ENDLESS:
        return None
    return Finding(
        "endless", "warning", f"{percent(share)} of the outputs never end",
        "They take all the room that there is without the end token; most then repeat themselves.",
        _or(_ways(run)),
    )  # fmt: skip


def one_answer(outputs: Outputs, run: Recorded = NOTHING) -> Finding | None:  # noqa: ARG001
    """One output for very different inputs."""
    answers = Counter(tuple(each.output) for each in outputs.written)
    truths = Counter(tuple(each.target) for each in outputs.written)
    answer, count = answers.most_common(1)[0]
    share, expected = count / len(outputs.written), truths[answer] / len(outputs.written)
    if share < SAME or share < 2 * expected:
        return None
    return Finding(
        "one-answer", "warning", f"{percent(share)} of the outputs are one and the same",
        f"It is the true one in {percent(expected)} of the cases: the model answers without reading the input.",
        "Train longer, or from an MLE model; if it was better before, lower --lr.",
    )  # fmt: skip


def _ways(run: Recorded) -> list[str]:
    """What teaches a model to end its outputs, of what the run's algorithm takes."""
    ways = ["cost the end in every cell (--tokens ...+end)"] if run.setting("tokens") not in (None, "all") else []
    if run.setting("roll_in") not in (None, "learned"):
        ways.append("roll in with the model's own outputs (--roll-in learned)")
    return ways


def _or(ways: list[str]) -> str:
    return "Train longer." + (f" If it stays, {listed(ways, 'or')}." if ways else "")


CHECKS = (lengths, endless, one_answer)
