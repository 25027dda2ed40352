"""Models kept on the way: at every so many steps, complete, the same after a resume, and in nobody's way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from training_cases import SETTINGS, lines, make_model, make_task, same, weights

from searnn.algorithms import Mle
from searnn.training import checkpoints, fit
from searnn.types import SearnnError


def test_models_are_kept_at_their_steps(tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=10, eval_every=5, keep_every=4)
    fit(make_model(), Mle(), make_task(), settings, tmp_path / "a")
    kept = checkpoints.kept(tmp_path / "a")
    assert list(kept) == [0, 4, 8]
    assert [checkpoints.load(path)[1]["step"] for path in kept.values()] == [0, 4, 8]
    # What was kept after n steps is what a run of n steps ends with, and step 0 is the model as it was made.
    fit(make_model(), Mle(), make_task(), replace(settings, steps=8, keep_every=None), tmp_path / "b")
    last = {name: value for name, value in weights(tmp_path / "b" / "last").items() if name.startswith("model.")}
    assert same(weights(kept[8]), last)
    first = {f"model.{name}": value for name, value in make_model().state_dict().items()}
    assert same(weights(kept[0]), first)
    assert checkpoints.kept(tmp_path / "b") == {}


def test_keeping_changes_nothing_else_and_survives_a_resume(tmp_path: Path) -> None:
    whole = replace(SETTINGS, steps=12, eval_every=4, keep_every=3)
    fit(make_model(), Mle(), make_task(), whole, tmp_path / "whole")
    fit(make_model(), Mle(), make_task(), replace(whole, keep_every=None), tmp_path / "plain")
    assert lines(tmp_path / "whole") == lines(tmp_path / "plain")
    fit(make_model(), Mle(), make_task(), replace(whole, steps=5), tmp_path / "cut")
    fit(make_model(), Mle(), make_task(), whole, tmp_path / "cut", resume=True)
    one, other = checkpoints.kept(tmp_path / "whole"), checkpoints.kept(tmp_path / "cut")
    assert list(one) == list(other) == [0, 3, 6, 9, 12]
    assert all(same(weights(one[step]), weights(other[step])) for step in one)


def test_what_is_no_kept_model_is_passed_over(tmp_path: Path) -> None:
    model = make_model()
    for step in (20, 3):
        checkpoints.keep(tmp_path, step, {f"model.{name}": value for name, value in model.state_dict().items()}, {})
    (tmp_path / "kept" / "notes").mkdir()
    (tmp_path / "kept" / "7").mkdir()  # a save that was killed before its end
    assert list(checkpoints.kept(tmp_path)) == [3, 20]
    with pytest.raises(SearnnError, match="keep_every is 0, it must be a whole number of at least 1"):
        replace(SETTINGS, keep_every=0)
