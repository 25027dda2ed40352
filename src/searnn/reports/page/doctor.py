"""The doctor: what is off in a run, in words, each with its reason and its remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from searnn.reports.page import costs, learning
from searnn.reports.page.findings import Finding, number, percent
from searnn.reports.page.outputs import Outputs
from searnn.reports.page.recorded import Recorded

ENOUGH = 20  # outputs, to say something of them
SHORT, LONG = 0.8, 1.25  # outputs' tokens over the truth's
ENDLESS = 0.1  # share of outputs that do not end
SAME = 0.2  # share of outputs that are one and the same


def examine(run: Recorded, outputs: Outputs | None = None) -> list[Finding]:
    """Everything that is off, the warnings first; `outputs` are those of its best model, where they are known."""
    found = [finding for check in (*learning.CHECKS, *costs.CHECKS) if (finding := check(run)) is not None]
    if outputs is not None and len(outputs.written) >= ENOUGH:
        checks = (lengths(outputs), endless(outputs), one_answer(outputs))
        found += [finding for finding in checks if finding is not None]
    return sorted(found, key=lambda finding: finding.level != "warning")


def lengths(outputs: Outputs) -> Finding | None:
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
        "Cost the end in every cell (--tokens ...+end), use a cost that minds the length such as edit, and train "
        "longer.",
    )  # fmt: skip


def endless(outputs: Outputs) -> Finding | None:
    """Outputs that fill all their room."""
    share = sum(each.full for each in outputs.written) / len(outputs.written)
    if share < ENDLESS:
        return None
    return Finding(
        "endless", "warning", f"{percent(share)} of the outputs never end",
        "They take all the room that there is without the end token; most then repeat themselves.",
        "Train longer. If it stays, cost the end in every cell (--tokens ...+end) or roll in with the model's own "
        "outputs (--roll-in learned), so that it learns to end them.",
    )  # fmt: skip


def one_answer(outputs: Outputs) -> Finding | None:
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


def compare(groups: Sequence[tuple[str, Sequence[float]]], higher_is_better: bool) -> list[Finding]:
    """What can be said of several settings, given the best metric of each of their runs."""
    found = []
    few = [name for name, values in groups if len(values) < learning.FEW]
    if few and len(groups) > 1:
        told = "One setting has" if len(few) == 1 else f"{len(few)} settings have"
        found.append(Finding(
            "few-seeds", "note", f"{told} fewer than three runs",
            "From seed to seed results differ, often by more than one setting from another.",
            "Train each with at least three seeds (--seed 0, 1, 2) before you believe a difference.",
        ))  # fmt: skip
    known = [group for group in groups if group[1]]
    ranked = sorted(known, key=lambda group: sum(group[1]) / len(group[1]), reverse=higher_is_better)
    if len(ranked) > 1:
        (first, ours), (second, theirs) = ranked[:2]
        overlap = min(ours) <= max(theirs) if higher_is_better else max(ours) >= min(theirs)
        if overlap and min(len(ours), len(theirs)) > 1:
            found.append(Finding(
                "overlap", "note", f"\u201c{first}\u201d and \u201c{second}\u201d cannot be told apart",
                "Their means differ, but the ranges of their runs overlap.", "More seeds would tell.",
            ))  # fmt: skip
    return found
