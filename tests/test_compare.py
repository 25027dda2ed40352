"""`searnn compare`: what is run, equal budgets, going on, failures, Ctrl-C, and what is told in the end."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from config_cases import refusal
from tiny import Refused

from searnn.cli import child, main
from searnn.config import files
from searnn.jobs import comparison, methods, pool
from searnn.jobs.job import Job
from searnn.reports.comparison import Result, Spread, cost_rows, joined, rows, spread, summaries, turned
from searnn.reports.paired import PREDICTIONS

STUB = (sys.executable, str(Path(__file__).with_name("helpers") / "compare_stub.py"))
SIZES = ["--symbols", "3", "--length", "3", "--examples", "20", "--width", "8", "--batch-size", "4", "--device", "cpu"]


def plan(*algorithms: str, **given: str) -> list[methods.Method]:
    return comparison.methods_of("copy", algorithms, dict(given), 0)


def test_settings_go_to_those_that_take_them():
    common = {"samples": "4", "alpha": "2", "lr": "1"}
    mle, searnn, ll, mrt = plan("mle,searnn", "searnn --loss ll --roll-in reference, mrt", **common)
    assert [entry.label for entry in (mle, searnn, ll, mrt)] == [
        "mle", "searnn", "searnn --loss ll --roll-in reference", "mrt",
    ]  # fmt: skip
    values = [entry.config.flat() for entry in (mle, searnn, ll, mrt)]
    assert [value["algorithm"] for value in values] == ["mle", "searnn", "searnn", "mrt"]
    assert [value["samples"] for value in values] == [None, None, None, 4]
    assert [value["alpha"] for value in values] == [None, 2.0, None, None]
    assert [value["loss"] for value in values] == [None, "kl", "ll", None]
    assert [value["roll_in"] for value in values] == [None, "learned", "reference", None]
    assert [value["lr"] for value in values] == [1.0] * 4
    assert [value["steps"] for value in values] == [2000] * 4


def test_an_item_overrides_what_is_given_to_all():
    one, other = plan("searnn", "searnn --alpha 5", alpha="2")
    assert (one.config.loss.alpha, other.config.loss.alpha) == (2.0, 5.0)


def test_a_budget_of_time_is_the_only_one():
    limits = [entry.config.optimisation for entry in plan("mle,mixer", minutes="3")]
    assert [(limit.minutes, limit.steps) for limit in limits] == [(3.0, "none")] * 2


@pytest.mark.parametrize(
    ("algorithms", "given", "words"),
    [
        ("mle,lols", {"samples": "3"}, "--samples does not apply to any of mle, lols: leave it out"),
        ("mle", {"steps": "3", "minutes": "1"}, "--steps and --minutes are two budgets: give one of them"),
        ("mle,searnn --steps 5", {}, "--steps must be the same for all, got 2000 (mle) and 5 (searnn --steps 5)"),
        ("mle,mle", {}, "--algorithms has 'mle' twice: give it once"),
        ("mle,,lols", {}, "--algorithms has '': expected names, each with settings if need be"),
        ("mle --x 'y", {}, "--algorithms has"),
        ("mle,serann", {}, "got 'serann'; did you mean searnn?"),
        ("mle --alpha 3", {}, "--alpha does not apply here: it belongs to --algorithm searnn"),
        ("mle --label-smothing 0.1", {}, "there is no flag --label-smothing; did you mean --label-smoothing?"),
        ("mle --seed 3", {}, "there is no flag --seed"),
        ("mle --label-smoothing x", {}, "--label-smoothing must be a number"),
    ],
)
def test_what_cannot_be_compared_is_refused(algorithms: str, given: dict[str, str], words: str):
    assert words in refusal(lambda: plan(algorithms, **given))


def test_mistakes_are_told_before_anything_is_run(refused: Refused):
    command = ["compare", "copy", *SIZES, "--algorithms"]
    assert "a leave-one-out baseline needs other samples" in refused(*command, "self-critical --baseline leave-one-out")
    assert "the task copy has none: choose another" in refused(*command, "lols --cost chunk-f1")
    assert "a whole number of at least 1, got '0'" in refused(*command, "mle", "--seeds", "0")
    assert "the following arguments are required: --algorithms" in refused("compare", "copy")


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(pool, "PROGRAM", STUB)
    monkeypatch.setattr(pool, "POLL", 0.02)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*words: str, steps: int = 3) -> list[str]:
    return ["compare", "copy", *SIZES, "--steps", str(steps), "--seeds", "2", "--jobs", "2", "--out", "out", *words]


def test_a_beam_stands_beside_greedy_decoding(stub: Path, capsys: pytest.CaptureFixture[str]):
    assert main(command("--algorithms", "mle")) == 0
    assert "beam" not in capsys.readouterr().out
    assert main(command("--algorithms", "mle", "--beam", "5")) == 0  # trained before, tested again
    assert "test error, beam 5" in capsys.readouterr().out
    found = json.loads((stub / "out" / "comparison.json").read_text())["methods"]["mle"]["test"]
    assert found["error"]["mean"] == pytest.approx(0.55)
    assert found["error, beam 5"]["mean"] == pytest.approx(0.11)
    tested = (stub / "out" / "mle-0" / "test.json").read_text()
    assert main(command("--algorithms", "mle")) == 0  # it is not shown, and not lost
    assert "beam" not in capsys.readouterr().out
    assert (stub / "out" / "mle-0" / "test.json").read_text() == tested
    for penalty in ("0.5", "2"):  # the same beam by another order is tested again
        assert main(command("--algorithms", "mle", "--beam", "5", "--length-penalty", penalty)) == 0
        record = json.loads((stub / "out" / "mle-0" / "test.json").read_text())
        assert (record["beam"], record["length_penalty"]) == (5, float(penalty))


def test_all_are_run_and_told_of(stub: Path, capsys: pytest.CaptureFixture[str]):
    assert main(command("--algorithms", "mle,searnn,searnn --loss ll")) == 0
    out = capsys.readouterr().out
    assert "6 runs, 2 at a time, in out" in out
    assert "searnn --loss ll, seed 1: 3 updates, 6 s, test error 0.35" in out
    found = json.loads((stub / "out" / "comparison.json").read_text())
    assert list(found["methods"]) == ["mle", "searnn", "searnn --loss ll"]
    assert found["methods"]["mle"]["test"]["error"] == {"mean": 0.55, "lowest": 0.5, "highest": 0.6}
    assert found["methods"]["searnn"]["times_mle"] == 1.0
    assert found["budget"] == {"steps": 3, "minutes": "none", "patience": "none"}
    assert found["command"].startswith("searnn compare copy --symbols 3")
    assert found["runs"][0]["curve"] == [[step, 2.0 * step, 1 / (1 + step)] for step in (1, 2, 3)]
    assert found["settings"]["searnn --loss ll"]["loss"]["loss"] == "ll"
    assert (stub / "out" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in (stub / "out").glob("*/")} >= {"mle-0", "mle-1", "searnn-loss-ll-1"}
    assert "0.55 (0.5 to 0.6)" in out


def test_what_is_finished_is_left_alone_and_what_is_not_goes_on(stub: Path, capsys: pytest.CaptureFixture[str]):
    assert main(command("--algorithms", "mle")) == 0
    logs = {path: path.read_text() for path in (stub / "out").glob("*.log")}
    assert main(command("--algorithms", "mle,lols")) == 0
    assert all(path.read_text() == text for path, text in logs.items())
    assert "lols, seed 1" in capsys.readouterr().out
    assert main(command("--algorithms", "mle,lols", steps=5)) == 0  # a larger budget takes them further
    assert (stub / "out" / "mle-0.log").read_text() == "trained to 3\ntrained to 5\n"
    found = json.loads((stub / "out" / "comparison.json").read_text())
    assert {run["steps"] for run in found["runs"]} == {5}
    capsys.readouterr()
    assert main(command("--algorithms", "mle,lols", "--lr", "0.5", steps=5)) == 2
    told = "out/mle-0 holds another run: --lr was 0.001 and is now 0.5; give another folder with --out"
    assert told in capsys.readouterr().err


def test_a_run_that_fails_stops_no_other(stub: Path, capsys: pytest.CaptureFixture[str]):
    assert main(command("--algorithms", "mrt,mle")) == 1
    out = capsys.readouterr().out
    assert "failed: out/mrt-0: this one fails" in out
    assert "failed: out/mrt-1: this one fails" in out
    record = json.loads((stub / "out" / "comparison.json").read_text())
    assert list(record["methods"]) == ["mle"]
    failed = [(one["label"], one["seed"], one["reason"]) for one in record["failed"]]
    assert failed == [("mrt", 0, "this one fails"), ("mrt", 1, "this one fails")]
    assert main(command("--algorithms", "mrt")) == 1
    assert "nothing to compare" in capsys.readouterr().out


@pytest.mark.parametrize("room", [1, 2])
def test_a_run_without_memory_waits_for_the_others(
    room: int, stub: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("STUB_ROOM", str(room))
    assert main(command("--algorithms", "mle,lols", "--jobs", "4", steps=40)) == 0
    out = capsys.readouterr().out
    told = [line for line in out.splitlines() if "has not enough memory beside the others and goes on later" in line]
    fewer = [int(line.split()[-4]) for line in told]
    assert told
    assert fewer == sorted(fewer, reverse=True)
    assert 1 <= fewer[-1] <= fewer[0] < 4
    assert "failed" not in out
    found = json.loads((stub / "out" / "comparison.json").read_text())
    assert found["methods"]["mle"]["seeds"] == found["methods"]["lols"]["seeds"] == [0, 1]
    assert not list((stub / "out").glob("*.failed"))


def test_a_run_that_has_no_memory_alone_fails(
    stub: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("STUB_ROOM", "0")
    assert main(command("--algorithms", "mle", "--jobs", "2")) == 1
    out = capsys.readouterr().out
    assert "now 1 at a time" in out
    for seed in (0, 1):
        assert f"failed: out/mle-{seed}: not enough memory on the GPU: lower --batch-size" in out


def test_a_test_that_cannot_be_read_stops_no_other(stub: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STUB_PRINTS", "lols")
        assert main(command("--algorithms", "lols,mle")) == 1
    out = capsys.readouterr().out
    assert "failed: out/lols-0: what it measured cannot be kept" in out
    assert "mle, seed 1: 3 updates" in out
    assert main(command("--algorithms", "lols,mle")) == 0


def test_a_smaller_budget_is_another_run(stub: Path, capsys: pytest.CaptureFixture[str]):
    assert main(command("--algorithms", "mle")) == 0
    before = (stub / "out" / "comparison.json").read_text()
    assert main(command("--algorithms", "mle", steps=2)) == 2
    told = "out/mle-0 holds a run of 3 updates, more than the 2 that are wanted; give another folder with --out"
    assert told in capsys.readouterr().err
    assert (stub / "out" / "comparison.json").read_text() == before
    jobs = methods.make_jobs(plan("mle", minutes="0.2"), [0], stub / "timed")
    state = jobs[0].folder / "last" / "state.json"
    state.parent.mkdir(parents=True)
    files.write(jobs[0].config, jobs[0].folder / "config.toml")
    counters = {"step": 9, "seconds": 12.5, "best_step": 9, "stale": 0}
    about = {"format": 1, "tensors": "tensors-000000000000.safetensors", "sha256": "0" * 64}
    state.write_text(json.dumps({**about, "state": {"counters": counters}}))
    methods.make_jobs(plan("mle", minutes="0.2"), [0], stub / "timed")  # a run ends a little after its time
    told = "timed/mle-0 holds a run of 0.21 minutes, more than the 0.1 that are wanted"
    assert told in refusal(lambda: methods.make_jobs(plan("mle", minutes="0.1"), [0], Path("timed")))


def test_a_run_that_cannot_be_started_stops_no_other(stub: Path, capsys: pytest.CaptureFixture[str]):
    (stub / "out" / "mle-0.log").mkdir(parents=True)
    assert main(command("--algorithms", "mle,lols")) == 1
    out = capsys.readouterr().out
    assert "failed: out/mle-0: it cannot be started: is a directory" in out
    assert [f"{name}, seed" in out for name in ("mle", "lols")] == [True, True]
    assert out.count("3 updates, ") == 3


def test_a_run_that_is_killed_says_so(stub: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    dies = "import os, signal; print('step 1 of 3', flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    monkeypatch.setattr(pool, "PROGRAM", (sys.executable, "-c", dies))
    assert main(command("--algorithms", "mle")) == 1
    told = "failed: out/mle-0: SIGKILL ended it, as the system does where memory runs out"
    assert told in capsys.readouterr().out


def job_of(stub: Path) -> Job:
    """That of the run in `out`."""
    found = methods.make_jobs(plan("mle", steps="3"), [0], stub / "other")[0]
    return Job(found.label, 0, found.config, stub / "out" / "mle-0")


@pytest.mark.parametrize("content", ["{", "{}", "[]", "3", '{"state": 1, "best_step": 1, "metrics": 2}'])
def test_damaged_records_of_a_run_are_none(stub: Path, content: str):
    assert main(command("--algorithms", "mle")) == 0
    job = job_of(stub)
    assert job.tested() is not None
    (job.folder / "test.json").write_text(content)
    assert job.tested() is None
    assert job.counters() is not None
    (job.folder / "last" / "state.json").write_text(content)
    assert job.counters() is None
    assert job.share() == 0


def test_a_run_that_was_stopped_in_its_last_evaluation_goes_on(stub: Path):
    assert main(command("--algorithms", "mle")) == 0
    job, path = job_of(stub), stub / "out" / "mle-0" / "last" / "state.json"
    assert [words[0] for words in job.commands()] == ["eval"]
    record = json.loads(path.read_text())
    record["state"]["counters"]["due"] = True
    path.write_text(json.dumps(record))
    assert job.tested() is None
    assert [words[0] for words in job.commands()] == ["train", "eval"]


def changed(path: Path) -> None:
    path.write_text(path.read_text().replace("\t1\t", "\t2\t"))


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("damage", [changed, endless, lambda path: path.write_bytes(b"")])
def test_damaged_predictions_are_measured_again(stub: Path, damage: Callable[[Path], object]):
    assert main(command("--algorithms", "mle")) == 0
    job = job_of(stub)
    path = job.folder / PREDICTIONS
    assert job.tested() is not None
    path.write_text("source\toutput\ttarget\tedits\texample\na\tb\ta\t1\t1\n")
    assert job.tested() is None, "nobody knows who wrote them"
    job.printed.write_text(json.dumps({"metrics": {"error": 0.5}}))
    job.note()
    assert job.tested() == {"error": 0.5}
    damage(path)
    assert job.tested() is None
    assert [words[0] for words in job.commands()] == ["eval"]
    path.unlink()
    assert job.tested() == {"error": 0.5}, "the metrics do not come from them"


def test_what_was_measured_of_an_earlier_best_model_is_measured_again(stub: Path):
    assert main(command("--algorithms", "mle")) == 0
    path = stub / "out" / "mle-0" / "test.json"
    measured = json.loads(path.read_text())
    job = job_of(stub)
    assert job.tested() == measured["metrics"]
    path.write_text(json.dumps(measured | {"best_step": 2, "metrics": {"error": 0.0}}))
    assert job.tested() is None
    assert [words[0] for words in job.commands()] == ["eval"]
    assert main(command("--algorithms", "mle")) == 0
    assert json.loads(path.read_text()) == measured
    assert measured["best_step"] == 3


# A process that starts one that lasts, tells of it, and waits to be killed.
PARENT = """
import os, subprocess, sys, threading, time
for _ in range(3):
    threading.Thread(target=time.sleep, args=[60], daemon=True).start()
subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2], sys.argv[3] or str(os.getpid())])
time.sleep(60)
"""
LASTS = """
import signal, sys, time
from pathlib import Path
from searnn.cli.child import end_with_parent
from searnn.training.interruption import interruption
with interruption() as interrupted:
    end_with_parent(int(sys.argv[2]))
    Path(sys.argv[1], "runs").touch()
    end = time.monotonic() + 60
    while not interrupted() and time.monotonic() < end:
        time.sleep(0.1)
    time.sleep(0.5)  # the system asks once for each thread that the parent had
    Path(sys.argv[1], "saved").touch()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells a process that its parent is gone")
def test_runs_save_and_end_when_what_started_them_is_killed(tmp_path: Path):
    def wait_for(name: str) -> None:
        end = time.monotonic() + 60
        while not (tmp_path / name).exists():
            assert time.monotonic() < end
            time.sleep(0.05)

    parent = subprocess.Popen([sys.executable, "-c", PARENT, LASTS, str(tmp_path), ""])
    wait_for("runs")
    parent.kill()
    parent.wait()
    wait_for("saved")


@pytest.mark.skipif(sys.platform != "linux", reason="no other system tells a process that its parent is gone")
def test_a_run_whose_parent_is_gone_before_it_begins_ends():
    with pytest.raises(SystemExit) as left:
        child.end_with_parent(os.getppid() + 1)
    assert left.value.code == 130


def test_what_was_finished_before_is_one_line(stub: Path, capsys: pytest.CaptureFixture[str]):
    assert main(command("--algorithms", "mle")) == 0
    assert "1 of 2: mle, seed" in capsys.readouterr().out
    assert main(command("--algorithms", "mle,lols")) == 0
    out = capsys.readouterr().out
    assert "2 of 4 were finished before" in out
    assert "mle, seed" not in out
    assert "4 of 4: lols, seed" in out


def test_steps_that_a_schedule_runs_over_stay(stub: Path, capsys: pytest.CaptureFixture[str]):
    falling = ("--algorithms", "mle", "--schedule", "cosine")
    assert main(command(*falling)) == 0
    for steps in (2, 5):
        assert main(command(*falling, steps=steps)) == 2
        assert f"out/mle-0 holds another run: --steps was 3 and is now {steps}" in capsys.readouterr().err


def test_a_job_ends_with_the_first_command_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    printed = tmp_path / "printed"
    assert child.run(printed, [["eval", str(tmp_path / "none")], ["--version"]]) == 2
    assert child.run(printed, [["eval", str(tmp_path / "nothing")]]) == 2
    assert not printed.exists()
    assert "none" in capsys.readouterr().err
    assert child.run(printed, [["data", "list"], ["data", "list"]]) == 0
    assert printed.read_text() == capsys.readouterr().out


def test_ctrl_c_has_all_save_and_the_same_command_goes_on(stub: Path, capsys: pytest.CaptureFixture[str]):
    started: list[Any] = []
    real = subprocess.Popen
    done = threading.Event()

    def interrupt() -> None:
        while not done.wait(0.02):
            if all((stub / "out" / name / "last" / "state.json").exists() for name in ("mle-0", "lols-0")):
                os.kill(os.getpid(), signal.SIGINT)
                return

    def popen(*arguments: Any, **options: Any) -> Any:
        started.append(real(*arguments, **options))
        return started[-1]

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pool.subprocess, "Popen", popen)
            assert main(command("--algorithms", "mle,lols", steps=1000)) == 130
    finally:
        done.set()
        thread.join()
    assert "interrupted: 0 of 4 runs are finished; give the same command to go on" in capsys.readouterr().out
    assert [process.poll() for process in started] == [130, 130]
    steps = {job: json.loads((stub / "out" / job / "last" / "state.json").read_text()) for job in ("mle-0", "lols-0")}
    assert all(0 < state["state"]["counters"]["step"] < 1000 for state in steps.values())
    assert not (stub / "out" / "mle-1").exists()
    assert main(command("--algorithms", "mle,lols", steps=20)) == 0
    assert (stub / "out" / "mle-0.log").read_text().endswith("trained to 20\n")


STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('runs', flush=True); time.sleep(60)"


def test_a_second_ctrl_c_ends_them_at_once(stub: Path, monkeypatch: pytest.MonkeyPatch):
    started: list[subprocess.Popen[str]] = []
    monkeypatch.setattr(pool, "PROGRAM", (sys.executable, "-c", STUBBORN))
    start = pool._start
    monkeypatch.setattr(pool, "_start", lambda *given: started.append(start(*given)) or started[-1])

    def show(tally: pool.Tally) -> None:
        if tally.interrupted:
            raise KeyboardInterrupt
        if all("runs" in job.complaint() for job in tally.running):
            os.kill(os.getpid(), signal.SIGINT)

    jobs = methods.make_jobs(plan("mle", steps="1000"), [0], stub / "out")
    with pytest.raises(KeyboardInterrupt):
        pool.run_all(jobs, 1, show, {})
    assert [process.returncode for process in started] == [-signal.SIGKILL]


def result(label: str, seed: int, valid: float, per_step: float, curve: Any = ()) -> Result:
    return Result(label, seed, "folder", 1, valid, {"error": 2 * valid, "x": 1.0}, 10, 60.0, per_step, list(curve))


def test_the_numbers_of_the_table():
    found = [result("mle", 0, 0.25, 0.1), result("mle", 1, 0.5, 0.3), result("b", 0, 0.125, 0.5)]
    numbers = summaries(found, "mle")
    values = [0.25, 0.5]
    assert numbers["mle"]["valid"] == Spread(statistics.mean(values), lowest=0.25, highest=0.5)
    assert numbers["b"]["times_mle"] == pytest.approx(0.5 / 0.2)
    assert summaries(found, None)["b"]["times_mle"] is None
    first, second = rows(found, "error", "mle")
    assert first["validation error"] == "0.375 (0.25 to 0.5)"
    assert (first["test error"], first["test x"]) == ("0.75 (0.5 to 1)", "1")
    assert second["test error"] == "0.25"
    assert turned([first, second])[1] == {"": "validation error", "mle": "0.375 (0.25 to 0.5)", "b": "0.125"}
    timed = [replace(one, cpu_seconds=30.0) for one in found[:2]]
    of_mle, of_b = cost_rows([*timed, found[2]], "mle")
    assert (of_mle["CPU seconds"], of_b["CPU seconds"]) == ("30", "-")
    assert (of_b["times MLE"], of_b["ms per update"]) == ("2.5", "500")
    assert str(spread([1.0, 1.0])) == "1"


def test_curves_are_joined_where_all_have_a_point():
    one, other = [(10, 1.0, 0.5), (20, 2.0, 0.4), (30, 3.0, 0.3)], [(10, 3.0, 0.7), (30, 5.0, 0.1)]
    assert joined([one, other]) == [(10, 2.0, [0.5, 0.7]), (30, 4.0, [0.3, 0.1])]


@pytest.mark.slow
def test_with_the_real_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert main(command("--algorithms", "mle,searnn", "--eval-every", "2")) == 0
    found = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert {(run["label"], run["seed"], run["steps"]) for run in found["runs"]} == {
        ("mle", 0, 3), ("mle", 1, 3), ("searnn", 0, 3), ("searnn", 1, 3),
    }  # fmt: skip
    assert all(point[2] >= 0 for run in found["runs"] for point in run["curve"])


def test_numbers_of_a_warm_up_are_told_of():
    mle, reinforce, mixer, bso = entries = plan("mle,reinforce --warm-up 50,mixer --warm-up 50,bso --warm-up 50")

    def result(method: methods.Method, steps: int, best: int) -> Result:
        return Result(method.label, 0, "", best, 0.5, {"error": 0.5}, steps, 1.0, 0.1, [])

    results = [result(mle, 40, 40), result(reinforce, 40, 40), result(reinforce, 90, 80)]
    results += [result(mixer, 90, 50), result(bso, 90, 50), result(bso, 90, 60)]
    assert list(comparison.of_the_warm_up(results, entries)) == [
        "reinforce --warm-up 50: some or all runs ended in the warm-up of 50 updates; give fewer with --warm-up",
        "mixer --warm-up 50: the best models are those of the warm-up (50 updates by maximum likelihood)",
    ]
