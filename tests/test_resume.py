"""A run that is stopped, killed or interrupted and then resumed is the run that never stopped, bit for bit."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training_cases import ADAM, SETTINGS, Scripted, lines, make_model, make_task, random_searnn, same, weights

from searnn import sealed
from searnn.algorithms import Mle
from searnn.tasks import Copy
from searnn.training import Outcome, Plan, Silent, TrainingSettings, fit, read_records
from searnn.training.interruption import interruption
from searnn.types import SearnnError

# Newer Pythons warn of forking beside threads; the children here only save or train and end by os._exit or a signal.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

MOMENTUM = replace(SETTINGS, momentum=0.9, lr=0.1, schedule="plateau", plateau_patience=0, lr_warmup=5)


class At(Silent):
    """Does something when so many steps are made."""

    def __init__(self, step: int, action: Callable[[], None]) -> None:
        self.step, self.action = step, action

    def on_step(self, step: int, loss: torch.Tensor, seconds: float) -> None:
        if step == self.step:
            self.action()


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def run(settings: TrainingSettings, folder: Path, algorithm: Any = None, **more: Any) -> Outcome:
    return fit(make_model(), algorithm or Mle(), make_task(), settings, folder, **more)


def assert_same_run(one: Path, other: Path) -> None:
    for part in ("last", "best"):
        assert same(weights(one / part), weights(other / part)), part
    assert lines(one) == lines(other)
    state = [json.loads((folder / "last" / "state.json").read_text())["state"] for folder in (one, other)]
    for side in state:
        for name in list(side["counters"]):
            if "seconds" in name:
                del side["counters"][name]
    assert state[0] == state[1]


@pytest.mark.parametrize("settings", [ADAM, MOMENTUM], ids=["adam", "sgd"])
def test_interrupted_then_resumed(tmp_path: Path, settings: TrainingSettings) -> None:
    whole = run(settings, tmp_path / "whole")
    before = signal.getsignal(signal.SIGINT)
    first = run(settings, tmp_path / "broken", watch=At(17, interrupt))
    assert (first.stopped, first.steps) == ("interrupted", 17)
    assert signal.getsignal(signal.SIGINT) is before
    assert [line["step"] for line in lines(tmp_path / "broken")] == [10]
    plans: list[Plan] = []
    watch = Silent()
    watch.start = plans.append  # type: ignore[method-assign]
    second = run(settings, tmp_path / "broken", resume=True, watch=watch)
    assert plans[0].step == 17
    assert plans[0].seconds >= 17 * first.seconds_per_step > 0
    assert (second.stopped, second.steps) == ("steps", 40)
    assert (second.best_step, second.best_metric) == (whole.best_step, whole.best_metric)
    assert second.seconds > first.seconds
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_searnn_with_every_randomness_resumes(tmp_path: Path) -> None:
    settings = replace(ADAM, steps=10, eval_every=4)
    run(settings, tmp_path / "whole", random_searnn())
    for stop in (1, 4, 7):
        again = stop > 1
        outcome = run(settings, tmp_path / "broken", random_searnn(), watch=At(stop, interrupt), resume=again)
        assert outcome.steps == stop
    run(settings, tmp_path / "broken", random_searnn(), resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "broken")


def test_a_run_taken_further_is_one_run(tmp_path: Path) -> None:
    """Its end at 17 steps has an evaluation that the longer run does not have; it leaves no trace."""
    run(MOMENTUM, tmp_path / "whole")
    short = run(replace(MOMENTUM, steps=17), tmp_path / "broken")
    assert short.stopped == "steps"
    assert [line["step"] for line in lines(tmp_path / "broken")] == [10, 17]
    run(MOMENTUM, tmp_path / "broken", resume=True)
    assert same(weights(tmp_path / "whole" / "last"), weights(tmp_path / "broken" / "last"))
    assert lines(tmp_path / "whole") == lines(tmp_path / "broken")


def test_two_at_a_time_in_one_folder_are_refused(tmp_path: Path) -> None:
    refused: list[str] = []

    def second() -> None:
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        with pytest.raises(SearnnError) as error:
            run(SETTINGS, tmp_path, resume=True)
        refused.append(str(error.value))
        assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert run(SETTINGS, tmp_path, watch=At(15, second)).steps == SETTINGS.steps
    told = "another process is training there: wait until it has ended, or give another folder"
    assert refused == [f"{tmp_path} is in use, {told}"]
    assert run(SETTINGS, tmp_path, resume=True).steps == SETTINGS.steps  # free again


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, how: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert run(SETTINGS, tmp_path).steps == SETTINGS.steps


def test_a_finished_run_stays_as_it_is(tmp_path: Path) -> None:
    settings = replace(SETTINGS, steps=17)
    first = run(settings, tmp_path)
    before = lines(tmp_path), weights(tmp_path / "last"), weights(tmp_path / "best")
    second = run(settings, tmp_path, resume=True)
    assert (second.steps, second.best_metric) == (17, first.best_metric)
    assert before[0] == lines(tmp_path)
    assert same(before[1], weights(tmp_path / "last"))
    assert same(before[2], weights(tmp_path / "best"))


def test_killed_at_17_of_40(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        try:
            run(ADAM, tmp_path / "killed", watch=At(17, lambda: os.kill(os.getpid(), signal.SIGKILL)))
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    run(ADAM, tmp_path / "killed", resume=True)
    run(ADAM, tmp_path / "whole")
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_second_signal_acts_at_once(tmp_path: Path) -> None:
    def twice() -> None:
        interrupt()
        interrupt()

    with pytest.raises(KeyboardInterrupt):
        run(SETTINGS, tmp_path, watch=At(12, twice))
    run(SETTINGS, tmp_path, resume=True)
    run(SETTINGS, tmp_path.parent / f"{tmp_path.name}-whole")
    assert_same_run(tmp_path, tmp_path.parent / f"{tmp_path.name}-whole")


def test_signals_are_left_alone_outside_the_main_thread() -> None:
    seen = []

    def body() -> None:
        with interruption() as interrupted:
            seen.append(interrupted())

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert seen == [False]


def test_patience_goes_on_counting(tmp_path: Path) -> None:
    settings = replace(SETTINGS, eval_every=2, patience=3)
    task = Scripted([5, 4, 4, 4, 4, 4])
    fit(make_model(), Mle(), task, settings, tmp_path, watch=At(7, interrupt))
    outcome = fit(make_model(), Mle(), task, settings, tmp_path, resume=True)
    assert (outcome.stopped, outcome.steps, outcome.best_step) == ("patience", 10, 4)


def test_records_after_the_checkpoint_are_cut(tmp_path: Path) -> None:
    run(SETTINGS, tmp_path, watch=At(25, interrupt))
    path = tmp_path / "metrics.jsonl"
    kept = path.read_bytes()
    later = sealed.text_of({**lines(tmp_path)[0], "step": 30}).encode()
    path.write_bytes(kept + later + b"\n" + later[:20])
    assert [record["step"] for record in read_records(path)] == [10, 20, 30]
    run(replace(SETTINGS, steps=25), tmp_path, resume=True)
    assert path.read_bytes().startswith(kept)
    assert [line["step"] for line in lines(tmp_path)] == [10, 20, 25]


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    run(SETTINGS, tmp_path, watch=At(25, interrupt))
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text().replace('"step": 10', '"step: 10'))
    with pytest.raises(SearnnError, match=r"line 1 of .*metrics\.jsonl is damaged"):
        run(SETTINGS, tmp_path, resume=True)


def test_a_damaged_last_record_is_not_taken_for_one_that_a_power_cut_has_spoilt(tmp_path: Path) -> None:
    run(SETTINGS, tmp_path, watch=At(25, interrupt))
    path = tmp_path / "metrics.jsonl"
    whole, lost = path.read_text(), r"metrics\.jsonl is damaged, the record of step 20 is lost: restore it"
    for instead, told in (('"step: 20', r"line 2 of .*metrics\.jsonl is damaged"), ('"step\0: 20', lost)):
        path.write_text(whole.replace('"step": 20', instead))
        with pytest.raises(SearnnError, match=told):
            run(SETTINGS, tmp_path, resume=True)
    path.unlink()
    assert run(SETTINGS, tmp_path, resume=True).steps == SETTINGS.steps


def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match=r"no run to resume in .*no such folder"):
        run(SETTINGS, tmp_path / "none", resume=True)
    folder = tmp_path / "run"
    short = replace(SETTINGS, steps=4, eval_every=2)
    run(short, folder)
    for change in ({"seed": 1}, {"lr": 0.4}, {"optimizer": "adam"}, {"batch_size": 4}, {"eval_every": 3}):
        name, value = next(iter(change.items()))
        with pytest.raises(SearnnError, match=f"{name} was .* and is now {value!r}; keep the run's own settings"):
            run(replace(short, **change), folder, resume=True)
    for schedule in ("linear", "cosine"):
        falling = replace(short, schedule=schedule)
        run(falling, tmp_path / schedule)
        with pytest.raises(SearnnError, match=f"steps was 4 and is now 6, which the {schedule} learning"):
            run(replace(falling, steps=6), tmp_path / schedule, resume=True)
        run(replace(falling, patience=5), tmp_path / schedule, resume=True)
    with pytest.raises(SearnnError, match="is of another model: model"):
        fit(make_model(width=12), Mle(), make_task(), short, folder, resume=True)
    path = next((folder / "last").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SearnnError, match="is truncated or damaged"):
        run(short, folder, resume=True)
    (folder / "last" / "state.json").unlink()
    with pytest.raises(SearnnError, match="has no checkpoint to resume from"):
        run(short, folder, resume=True)


def test_a_run_killed_before_its_first_save_begins_again(tmp_path: Path) -> None:
    (tmp_path / "run" / "last").mkdir(parents=True)
    (tmp_path / "run" / "last" / "tensors-000000000000.safetensors.new").write_bytes(b"half")
    (tmp_path / "run" / "metrics.jsonl").touch()
    short = replace(SETTINGS, steps=4, eval_every=2)
    run(short, tmp_path / "run", resume=True)
    run(short, tmp_path / "whole")
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_interrupted_in_an_evaluation(tmp_path: Path) -> None:
    """The evaluation that was cut off is the first thing a resumed run does."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    settings = replace(SETTINGS, steps=12, eval_every=6)
    run(settings, whole)
    # A signal in the step before the evaluation is noticed in it: the loop looks for signals before a step only.
    assert run(settings, cut, watch=At(6, interrupt)).stopped == "interrupted"
    assert not read_records(cut / "metrics.jsonl")
    assert not (cut / "best").exists()
    run(settings, cut, resume=True)
    assert_same_run(whole, cut)


def test_other_data_cannot_be_resumed_with(tmp_path: Path) -> None:
    run(replace(SETTINGS, steps=3), tmp_path / "run")
    other = Copy(symbols=3, length=3, examples=120, seed=2)
    with pytest.raises(SearnnError, match="the training data is not what it was"):
        fit(make_model(), Mle(), other, replace(SETTINGS, steps=5), tmp_path / "run", resume=True)
