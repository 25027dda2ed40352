"""The doctor: a made-up run for everything it can find, beside a sound one in which it finds nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_cases import Change, made_run, records, with_settings, write_run

from searnn.config import registry
from searnn.config.applies import obstacle
from searnn.config.files import from_flags
from searnn.config.registry import AXES
from searnn.config.resolving import resolve
from searnn.config.schema import DECLARED
from searnn.reports.bootstrap import Estimate
from searnn.reports.doctor import Finding, compare, examine
from searnn.reports.doctor.costs import CHECKS as OF_COSTS
from searnn.reports.doctor.course import CHECKS as OF_COURSE
from searnn.reports.doctor.written import endless, lengths, one_answer
from searnn.reports.headroom import Headroom, Prefixes, Way
from searnn.reports.outputs import Outputs, Written
from searnn.reports.recorded import Recorded, read_run
from searnn.training import checkpoints

# What is found, in which settings, by what change of a sound run, and a word of its remedy.
Case = tuple[str, dict[str, Any], dict[str, Change], str]
CASES: list[Case] = [
    ("flat-costs", {"cost": "exact"}, {"equal_cost_share": lambda n: 0.92}, "--cost edit"),
    ("flat-costs", {"cost": "bleu"}, {"equal_cost_share": lambda n: 0.7}, "--cost gleu"),
    ("flat-costs", {"tokens": "top", "k": 5}, {"equal_cost_share": lambda n: 0.7}, "--k"),
    ("flat-costs", {"cost": None, "roll_in": None}, {"equal_cost_share": lambda n: 0.7}, "--cost edit"),
    ("alpha-small", {"alpha": 1.0}, {}, "--alpha to about 25"),
    ("alpha-large", {"alpha": 2000.0}, {}, "--loss ll"),
    ("exposure", {"roll_in": "reference"}, {"free_running_loss": lambda n: 3.0}, "--roll-in learned"),
    ("exposure", {"cost": None, "roll_in": None}, {"free_running_loss": lambda n: 3.0}, "--algorithm searnn"),
    ("exposure", {}, {"free_running_loss": lambda n: 3.0}, "Train longer"),
    ("sure-and-wrong", {}, {"entropy": lambda n: 0.01, "free_running_loss": lambda n: 1.2,
                            "teacher_forced_loss": lambda n: 1.0}, "Lower --alpha"),
    ("sure-and-wrong", {"loss": "ll", "alpha": None}, {"entropy": lambda n: 0.01, "free_running_loss": lambda n: 1.2,
                                                       "teacher_forced_loss": lambda n: 1.0}, "--loss kl"),
    ("truth-not-cheapest", {"roll_out": "learned"}, {"cheapest_not_true_share": lambda n: 0.6}, "--roll-out mixed"),
    ("edited-away", {"algorithm": "raml"}, {"train_edited_share": lambda n: 1.2}, "--tau auto"),
    ("not-finite", {}, {"train_loss": lambda n: None if n == 6 else 5.0 - 0.3 * n}, "Lower --lr"),
    ("stuck-at-start", {}, {"valid_error": lambda n: 0.9, "train_loss": lambda n: 5.0}, "--algorithm mle"),
    ("stuck-at-start", {}, {"valid_error": lambda n: 0.9}, "Train longer first"),
    ("collapsed", {}, {"valid_error": lambda n: 0.9 - 0.1 * n if n < 6 else 0.85}, "The best model is kept"),
    ("growing-loss", {}, {"train_loss": lambda n: 5.0 - n if n < 4 else 1.0 + 0.4 * (n - 4)}, "lower --lr"),
    ("overfitted", {}, {"teacher_forced_loss": lambda n: 0.5 + 0.1 * abs(n - 4), "train_loss": lambda n: 5.0 * 0.8**n,
                        "valid_error": lambda n: 0.2 + 0.01 * abs(n - 4) if n > 2 else 0.9}, "--dropout"),
    ("restless", {"average": 0.0},
     {"valid_error": lambda n: 0.9 if n < 2 else 0.4 - 0.01 * min(n, 9) + (n + 1) % 2 * 0.1}, "--average 0.999"),
    ("no-gradient", {}, {"gradient_norm": lambda n: 1e-9}, "equal costs"),
    ("clipped", {}, {"gradient_norm": lambda n: 60.0}, "--clip"),
    ("stale", {}, {"valid_error": lambda n: 0.9 - 0.2 * min(n, 3) + (0.004 if n > 3 else 0.0)}, "--schedule plateau"),
    ("stale", {"schedule": "plateau"}, {"valid_error": lambda n: 0.9 - 0.2 * min(n, 3) + (0.004 if n > 3 else 0.0)},
     "larger model"),
    ("tired-rate", {"schedule": "plateau"}, {"learning_rate": lambda n: 0.001 * 0.5**n,
                        "valid_error": lambda n: 0.9 - 0.1 * min(n, 7) + (0.004 if n > 7 else 0.0)}, "--min-lr"),
    ("still-improving", {}, {"valid_error": lambda n: 0.9 * 0.9**n}, "--resume"),
    ("slower", {"cells": "all"}, {"steps_per_second": lambda n: 50.0 if n < 7 else 20.0}, "--n-cells"),
    ("evaluations-cost", {}, {"seconds": lambda n: 8.0 * (n + 1)}, "--eval-every"),
]  # fmt: skip


def kinds(run: Recorded) -> list[str]:
    return [finding.kind for finding in examine(run)]


def test_nothing_is_off_in_a_sound_run(tmp_path: Path) -> None:
    assert kinds(made_run(tmp_path)) == []


@pytest.mark.parametrize(("kind", "settings", "changes", "remedy"), CASES, ids=lambda case: str(case)[:24])
def test_each_thing_is_found_alone(
    kind: str, settings: dict[str, Any], changes: dict[str, Change], remedy: str, tmp_path: Path
) -> None:
    """That one thing and nothing else, with a reason and a remedy that is a sentence."""
    found = examine(made_run(tmp_path, settings=settings, **changes))
    assert [finding.kind for finding in found] == [kind]
    assert remedy in found[0].remedy
    assert found[0].reason.endswith(".")
    assert found[0].remedy.endswith(".")
    assert not found[0].title.endswith(".")


def test_every_check_has_a_case() -> None:
    """No check may be added without a run that it fires on; short runs have a test of their own."""
    fired = {kind for kind, *_ in CASES}
    for check in (*OF_COSTS, *OF_COURSE):
        hits = [case for case in CASES if _fires(check, case)]
        assert hits or check.__name__ in ("few_evaluations", "by_heart"), check.__name__
    assert len(fired) == 20


def _fires(check: Any, case: Case) -> bool:
    kind, settings, changes, _ = case
    settled = with_settings(**settings)
    lines = records(13, **changes)
    return getattr(check(Recorded("made", tuple(lines), settled, "error", False)), "kind", None) == kind


def test_advice_is_not_what_the_run_has_had(tmp_path: Path) -> None:
    """Settings that help come before another algorithm, and none that is set already."""
    gap: dict[str, Change] = {"free_running_loss": lambda n: 3.0}
    plain = {"cost": None, "roll_in": None, "average": 0.0, "dropout": 0.0, "label_smoothing": 0.0}
    (first,) = examine(made_run(tmp_path / "plain", settings=plain, **gap))
    wanted = ["--average 0.999", "--dropout 0.3", "--label-smoothing 0.1", "--algorithm searnn"]
    places = [first.remedy.index(word) for word in wanted]
    assert places == sorted(places)
    better = {**plain, "average": 0.999, "dropout": 0.3, "label_smoothing": 0.1, "schedule": "plateau"}
    (second,) = examine(made_run(tmp_path / "better", settings=better, **gap))
    assert not any(word in second.remedy for word in wanted[:3])
    assert second.remedy.startswith("Train with --algorithm searnn")

    heart: dict[str, Change] = {
        "teacher_forced_loss": lambda n: 0.5 + 0.1 * abs(n - 4),
        "train_loss": lambda n: 5.0 * 0.8**n,
        "valid_error": lambda n: 0.2 + 0.01 * abs(n - 4) if n > 2 else 0.9,
    }
    given = {"dropout": 0.4, "weight_decay": 0.01, "patience": 20}
    (third,) = examine(made_run(tmp_path / "heart", settings=given, **heart))
    assert third.remedy.startswith("Raise --dropout above 0.4, raise --weight-decay")
    assert "--patience" not in third.remedy

    smoothed: dict[str, Change] = {"entropy": lambda n: 0.01, "free_running_loss": lambda n: 1.2,
                                   "teacher_forced_loss": lambda n: 1.0}  # fmt: skip
    (fourth,) = examine(made_run(tmp_path / "sure", settings={**better, "loss": None}, **smoothed))
    assert fourth.remedy.startswith("Raise --label-smoothing")


@pytest.mark.parametrize(("count", "title"), [(0, "There is no evaluation"), (1, "is one"), (2, "There are 2")])
def test_a_run_that_has_only_begun(count: int, title: str, tmp_path: Path) -> None:
    found = examine(made_run(tmp_path, count))
    assert [finding.kind for finding in found] == ["few-evaluations"]
    assert title in found[0].title


QUICK = ("mle",)  # the others take ten seconds each


@pytest.mark.parametrize(
    "algorithm", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in AXES["algorithm"]]
)
def test_remedies_name_only_what_the_runs_algorithm_takes(algorithm: str, tmp_path: Path) -> None:
    """All findings for a run by each algorithm: a flag of a remedy applies, or comes with what makes it apply."""
    truth = [[1, 2, 3, number] for number in range(30)]
    written = [outputs([(e[:1], e) for e in truth]), outputs([(truth[0], e) for e in truth], full=True)]
    found: dict[str, Finding] = {}
    for tokens in ("all", "top"):
        given = {"name": "copy", "algorithm": algorithm}
        given |= {"tokens": tokens} if registry.takes("algorithm", algorithm, "tokens") else {}
        values = resolve(from_flags(given)).flat()
        for _, changed, changes, _ in CASES:
            config = {"all": {name: value for name, value in values.items() if value is not None}}
            if changed.get("algorithm", algorithm) != algorithm:
                continue
            own = {name: value for name, value in changed.items() if value is not None and name in config["all"]}
            run = Recorded("made", tuple(records(13, **changes)), {"all": config["all"] | own}, "error", False)
            for shown in written:
                for finding in examine(run, shown):
                    found[finding.kind] = finding
                    named = [name.replace("-", "_") for name in re.findall(r"--([a-z-]+)", finding.remedy)]
                    words = re.findall(r"--([a-z-]+) ([a-z0-9][a-z0-9-]*)", finding.remedy)
                    made = {name.replace("-", "_"): word for name, word in words if name in ("algorithm", "cells")}
                    for name in set(named) - {"resume"}:
                        both = ({**given, **own}, {**({} if "algorithm" in made else given), **made})
                        after = [resolve(from_flags({"name": "copy", **one})) for one in both]
                        obstacles = [obstacle(DECLARED[name], one.flat()) for one in after]
                        assert None in obstacles[: 1 + bool(made)], (finding.kind, finding.remedy)
    assert len(found) > 12


def test_warnings_come_first(tmp_path: Path) -> None:
    run = made_run(tmp_path, gradient_norm=lambda n: 60.0, equal_cost_share=lambda n: 0.92)
    assert [finding.level for finding in examine(run)] == ["warning", "note"]
    assert "92 %" in examine(run)[0].title


def with_headroom(run: Recorded, train: float, judged: float) -> Recorded:
    """The run with a headroom in which so many cells of training and of new data have a mistake."""
    side, value = Prefixes(10, 0.2, 0.1, judged, 0.1, 0.1, 0.3, 0.5, 0.6, 0.4, 0.1), Estimate(0.2, 0.1, 0.3)
    found = Headroom(
        run="made", task="copy", algorithm="mle", metric="error", higher_is_better=False, step=1, split="valid",
        examples=10, samples=4, temperature=1.0, beam=5, seed=0, perfect=0.0, greedy=value, beamed=Way(value, value),
        mbr=Way(value, value), best=Way(value, value), ambiguity=0.1, choice=0.1, unknown=0.8, spared=0.1,
        judged=side, train=replace(side, visible=train), forecast=None, words=(),
    )  # fmt: skip
    return replace(run, headroom=found)


@pytest.mark.parametrize(("settings", "remedy"), [
    ({"cross_entropy_weight": 0.0}, "Add --cross-entropy-weight 1 and --label-smoothing 0.1"),
    ({"cross_entropy_weight": 1.0, "label_smoothing": 0.0}, "Add --label-smoothing 0.1: it gains"),
    ({"cross_entropy_weight": 1.0, "label_smoothing": 0.1}, "Expect little more than from maximum likelihood"),
    ({"cost": None, "roll_in": None}, "Expect little from --algorithm searnn"),
])  # fmt: skip
def test_a_search_that_sees_few_of_the_mistakes(settings: dict[str, Any], remedy: str, tmp_path: Path) -> None:
    run = made_run(tmp_path, settings=settings)
    (finding,) = examine(with_headroom(run, 0.01, 0.1))
    assert (finding.kind, finding.level) == ("by-heart", "note")
    assert finding.title == "A search on the training data sees 10 % of the mistakes"
    assert "at 1.0 % of the cells of training data and at 10.0 % of new data" in finding.reason
    assert finding.remedy.startswith(remedy)
    assert examine(with_headroom(run, 0.05, 0.1)) == []
    assert examine(with_headroom(run, 0.0, 0.0)) == [], "no mistake anywhere"


def test_a_metric_of_which_more_is_better(tmp_path: Path) -> None:
    """The same fall is a collapse where more is better, and progress where less is."""
    lines = [line | {"valid_bleu": 10.0 + min(n, 6) * 4 - max(0, n - 6) * 5} for n, line in enumerate(records())]
    for line in lines:
        del line["valid_error"]
    run = read_run(write_run(tmp_path / "bleu", lines))
    assert (run.metric, run.higher_is_better, run.best) == ("bleu", True, (700, 34.0))
    assert "collapsed" in kinds(run)
    lower = Recorded("x", run.records, run.settings, "bleu", False)
    assert "collapsed" not in kinds(lower)


def test_the_kept_model_tells_which_way_is_better(tmp_path: Path) -> None:
    """A metric of an unknown name: the best checkpoint's record has the extreme that is better."""
    lines = [{"step": n + 1, "valid_joy": float(n % 4), "seconds": 1.0} for n in range(8)]
    folder = write_run(tmp_path, lines)
    assert not read_run(folder).higher_is_better
    for kept, higher in ((3.0, True), (0.0, False)):
        checkpoints.save(folder / "best", {}, {"record": {"step": 1, "valid_joy": kept}})
        assert read_run(folder).higher_is_better is higher


def outputs(pairs: list[tuple[list[int], list[int]]], full: bool = False) -> Outputs:
    written = tuple(Written(ours, true, None, at, full=full) for at, (ours, true) in enumerate(pairs))
    return Outputs("test", written, {}, True)


def test_lengths_of_outputs() -> None:
    truth = [[1, 2, 3, number] for number in range(30)]
    assert lengths(outputs([(each, each) for each in truth])) is None
    short, long = lengths(outputs([(e[:2], e) for e in truth])), lengths(outputs([(e + e, e) for e in truth]))
    assert short is not None
    assert "short: 0.5 times" in short.title
    assert long is not None
    assert "long: 2 times" in long.title


def test_outputs_that_never_end_or_are_all_the_same() -> None:
    truth = [[1, 2, 3, number] for number in range(30)]
    assert endless(outputs([(each, each) for each in truth])) is None
    never = endless(outputs([(each, each) for each in truth], full=True))
    assert never is not None
    assert "100 %" in never.title
    same = one_answer(outputs([(truth[0], each) for each in truth]))
    assert same is not None
    assert "100 %" in same.title
    assert "3 %" in same.reason
    assert one_answer(outputs([(truth[0], truth[0])] * 30)) is None  # one answer that is right is none to mend
    run = Recorded("x", (), {}, None)
    assert "one-answer" in [each.kind for each in examine(run, outputs([(truth[0], each) for each in truth]))]


def test_groups_of_runs() -> None:
    apart = [("a", [0.1, 0.11, 0.12]), ("b", [0.2, 0.21, 0.22])]
    assert compare(apart, higher_is_better=False) == []
    near = [("a", [0.1, 0.11, 0.25]), ("b", [0.2, 0.21, 0.22])]
    assert [each.kind for each in compare(near, higher_is_better=False)] == ["overlap"]
    assert [each.kind for each in compare([("a", [0.1]), ("b", [0.2])], higher_is_better=True)] == ["few-seeds"]
    assert math.isfinite(len(compare([("a", []), ("b", [0.2])], higher_is_better=True)))
