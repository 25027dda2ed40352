"""Two ranks under torchrun: the same updates as one, everything counted once, agreement on the end and on mistakes.

One test, since starting two processes takes longer than all they do: torchrun is started once, and what both ranks
reported is then looked at from all sides.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from distributed_cases import CASES, assert_same_to_rounding, start_ranks, train, uneven_task
from training_cases import lines, make_model, same, weights

from searnn.training import checkpoints, evaluate, read_records

RUNNER = Path(__file__).with_name("helpers") / "distributed_runner.py"

Report = dict[str, Any]


@pytest.mark.slow
def test_two_ranks_train_as_one(tmp_path: Path) -> None:
    folder, alone = tmp_path / "ranks", tmp_path / "alone"
    train("mixed", folder / "from one")  # the ranks go on with it
    with start_ranks(str(RUNNER), str(folder)) as ranks:
        _, told = ranks.communicate(timeout=400)
    assert ranks.returncode == 0, told
    reports = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    assert [report["world"] for report in reports] == [[0, 2, 0, 2], [1, 2, 1, 2]]
    for name in CASES:
        check_updates(name, folder, alone)
    check_parts(folder, alone)
    check_dropout(folder, alone)
    check_other_numbers_of_ranks(folder, alone)
    check_evaluation(reports)
    check_writing(reports)
    check_endings(folder, reports)
    check_mistakes(folder, reports)


def check_updates(name: str, folder: Path, alone: Path) -> None:
    train(name, alone / name)
    assert_same_to_rounding(alone / name, folder / "two" / name)
    assert not same(weights(alone / name / "last"), weights(folder / "two" / name / "last")), f"{name}: was not shared"


def check_parts(folder: Path, alone: Path) -> None:
    """Ranks that cut their shares again."""
    assert_same_to_rounding(alone / "mixed, cells", folder / "accumulated")


def check_dropout(folder: Path, alone: Path) -> None:
    """It depends on how a batch is cut, not on who has the parts."""
    train("mle", alone / "parts", dropout=0.5, accumulate=2)
    assert_same_to_rounding(alone / "parts", folder / "dropout")
    train("mle", alone / "whole", dropout=0.5)
    assert lines(alone / "whole")[0]["train_loss"] != pytest.approx(lines(folder / "dropout")[0]["train_loss"])


def check_other_numbers_of_ranks(folder: Path, alone: Path) -> None:
    """A run that was begun on one rank and ended on two, and the other way round."""
    train("mixed", alone / "longer", steps=6)
    assert_same_to_rounding(alone / "longer", folder / "from one")
    train("mixed", folder / "from two", steps=6, resume=True)
    assert_same_to_rounding(alone / "longer", folder / "from two")


def check_evaluation(reports: list[Report]) -> None:
    task, model = uneven_task(), make_model(dropout=0.0)
    for report in reports:
        for beam, found in report["metrics"].items():
            assert found == evaluate(model, task.valid(4), task, beam=int(beam))


def check_writing(reports: list[Report]) -> None:
    """Rank 0 alone writes and is watched."""
    assert len(reports[0]["written"]) > 50
    assert reports[1]["written"] == []
    assert [report["told"] for report in reports] == [2, 0]


def check_endings(folder: Path, reports: list[Report]) -> None:
    """All end when one has reason to."""
    first, second = (report["endings"] for report in reports)
    assert first == second
    assert first["interrupted"] == ["interrupted", 4, 0, None]  # the first call only looks at the parameters
    assert checkpoints.load(folder / "interrupted" / "last")[1]["counters"]["step"] == 4
    assert first["minutes"][:2] == ["minutes", 4]
    assert first["by time"][0] == "minutes"
    assert first["by time"][1] in (29, 30)
    assert len(read_records(folder / "by time" / "metrics.jsonl")) in (22, 23, 24)
    assert first["patience"] == ["patience", 8, 4, 4.0]


def check_mistakes(folder: Path, reports: list[Report]) -> None:
    """What goes wrong on one rank is known to all."""
    first, second = (report["mistakes"] for report in reports)
    assert first == second
    assert all(agreed for _, agreed in first.values())
    told = {name: text for name, (text, _) in first.items()}
    ids = uneven_task().train(7, 0).batch(3).ids
    assert ids is not None
    assert f"not finite at step 3, whose batch has the examples {' '.join(map(str, ids))}" in told["not finite"]
    assert f"{folder / 'bad' / 'last'}, of step 2" in told["not finite"]
    assert checkpoints.load(folder / "bad" / "last")[1]["counters"]["step"] == 2
    assert "batch size is 3, expected at least 4" in told["small batch"]
    assert "different data" in told["other data"]
    assert "already holds a run" in told["in use"]
    assert "no space left" in told["full disk"]
