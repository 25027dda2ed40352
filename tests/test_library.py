"""The library from the outside: what importing it costs, what it offers, runs trained and opened in Python."""

from __future__ import annotations

import json
import os
import pydoc
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from tiny import contents, ocr_flags, pairs_files, pairs_flags, tiny_letters

import searnn
from searnn.cli import main
from searnn.decoding import decode
from searnn.training import read_records

SIZES = {"width": 8, "batch_size": 4, "steps": 3, "eval_every": 2, "device": "cpu"}
PAIRS = [("ab", "ba"), ("abc", "cba"), ("ca", "ac"), ("bb", "bb"), ("cab", "bac"), ("a", "a")]
SPINNING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
HEAVY = [
    "IPython", "lightning_fabric", "matplotlib", "numba", "PIL", "pydantic", "pydantic_core", "rich", "sacrebleu",
    "safetensors", "scipy", "searnn.adapters.transformers", "searnn.algorithms", "searnn.cli", "searnn.config",
    "searnn.fast.gpu.gru_rows", "searnn.hf", "searnn.reports", "searnn.runs", "searnn.tasks", "searnn.training",
    "sentencepiece", "tensorboard", "transformers", "triton",
]  # fmt: skip


def length_difference(output: list[str], target: list[str]) -> float:
    return abs(len(output) - len(target))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    assert main(pairs_flags(folder, folder / "run")) == 0
    return folder / "run"


def test_importing_brings_nothing_that_is_not_needed() -> None:
    """In a process of its own; what torch itself brings is not counted."""
    program = (
        "import sys, torch; before = set(sys.modules); import searnn; searnn.Batch; new = set(sys.modules) - before; "
        "import json; searnn.Searnn; print(json.dumps([sorted(new), 'searnn.algorithms' in sys.modules]))"
    )
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    new, after = json.loads(out)
    assert "searnn.types" in new
    assert [name for name in HEAVY if name in new] == []
    assert after  # what was left out comes when it is asked for


@pytest.mark.parametrize(
    ("before", "after"), [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, "None")]
)
def test_idle_threads_wait_briefly_unless_told_otherwise(before: dict[str, str], after: str) -> None:
    """What is set must be set before torch is there."""
    program = """if True:
        import builtins, os, sys
        usual = builtins.__import__
        def watched(name, *rest):
            if name == "torch" and "torch" not in sys.modules:
                print(os.environ.get("GOMP_SPINCOUNT"))
            return usual(name, *rest)
        builtins.__import__ = watched
        import searnn
        assert "torch" not in sys.modules  # with Ctrl-C a command ends in silence from here on
        searnn.Batch
    """
    environment = {name: value for name, value in os.environ.items() if name not in SPINNING} | before
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    assert out.stdout.split()[0] == after


def test_the_names_are_few_and_all_there() -> None:
    shown = [name for name in dir(searnn) if not name.startswith("_")]
    assert len(shown) < 40
    assert set(searnn.__all__) < set(shown)
    for name in shown:
        assert getattr(searnn, name) is not None, name
    assert {name for name in shown if isinstance(getattr(searnn, name), ModuleType)} == set(shown) - set(searnn.__all__)
    assert callable(searnn.search)  # not the package of that name
    with pytest.raises(AttributeError, match="no attribute 'Sernn'"):
        _ = searnn.Sernn


def test_every_name_says_what_it_is() -> None:
    for name in searnn.__all__:
        told = pydoc.getdoc(getattr(searnn, name))
        assert told, name
        assert len(told.splitlines()[0]) > 20, name
    text = pydoc.plain(pydoc.render_doc(searnn))
    assert all(f"searnn.{name}" in text or f"`{name}`" in text for name in ("train", "load", "costs", "Model"))


def test_the_types_are_shipped() -> None:
    assert (Path(searnn.__file__).parent / "py.typed").is_file()


def test_a_run_is_opened_and_predicts_as_the_command_does(
    trained: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = searnn.load(trained)
    assert run.folder == trained
    assert run.task.name == "pairs"
    assert run.config.model.width == 8
    lines = ["a b c", "c", "b a", "a a a a", "c b"]  # more than a batch
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    capsys.readouterr()
    asked = ["predict", str(trained), "--input", str(tmp_path / "in.txt"), "--device", "cpu"]
    assert main(asked) == 0
    assert run.predict(lines) == capsys.readouterr().out.splitlines()
    assert main([*asked, "--beam", "3"]) == 0
    assert run.predict(lines, beam=3) == capsys.readouterr().out.splitlines()
    assert main([*asked, "--n-best", "2", "--scores", "--beam", "3"]) == 0
    expected = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    found = run.n_best(lines, 2, beam=3)
    rows = [[str(at), text, f"{score:.4f}"] for at, each in enumerate(found, 1) for text, score in each]
    assert rows == expected
    assert run.predict([]) == []


def test_a_run_is_measured_as_by_the_command(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = searnn.load(trained)
    capsys.readouterr()
    for split in ("valid", "test"):
        assert main(["eval", str(trained), "--split", split, "--json", "--device", "cpu"]) == 0
        assert run.evaluate(split) == json.loads(capsys.readouterr().out)["metrics"]
    assert run.evaluate("valid")["error"] == pytest.approx(run.metrics.best["valid_error"])


def test_what_cannot_be_read_is_refused(trained: Path) -> None:
    run = searnn.load(trained)
    for wrong, told in (("a b", "one text"), ([3], "input 0 is a int"), (["a", ""], "input 1 is bad")):
        with pytest.raises(searnn.SearnnError, match=told):
            run.predict(wrong)
    with pytest.raises(searnn.SearnnError, match="split is 'train'"):
        run.evaluate("train")
    for n, beam in ((0, None), (3, 2)):
        with pytest.raises(searnn.SearnnError, match=f"n is {n} and beam"):
            run.n_best(["a"], n, beam=beam)


def test_a_run_on_features_reads_arrays(tmp_path: Path) -> None:
    assert main(ocr_flags(tiny_letters(tmp_path / "letters.npz"), tmp_path / "run")) == 0
    run = searnn.load(tmp_path / "run")
    batch = next(iter(run.task.test(3)))
    words = [values[:length].numpy() for values, length in zip(batch.inputs.values, batch.lengths, strict=True)]
    rows = zip(decode(run.model, batch).tolist(), batch.lengths.tolist(), strict=True)
    expected = [run.task.show(row[:length]) for row, length in rows]
    assert run.predict(words) == expected
    assert run.predict([words[0].tolist()]) == expected[:1]
    for wrong in (np.zeros((3, 5)), np.zeros(128), np.zeros((0, 128)), "text"):
        with pytest.raises(searnn.SearnnError, match="input 0 is bad"):
            run.predict([wrong])


def test_the_metrics_are_the_records(trained: Path) -> None:
    metrics = searnn.load(trained).metrics
    records = read_records(trained / "metrics.jsonl")
    assert list(metrics) == records
    assert [step for step, _ in metrics.column("train_loss")] == [2, 3]
    assert {"valid_error", "train_loss", "seconds"} <= set(metrics.names)
    table = str(metrics.table("train_loss", "entropy"))
    assert "entropy" in table
    assert "valid_error" not in table
    for record in records:
        assert f"{record['train_loss']:.4g}" in table
        assert f"{record['train_loss']:.4g}" in metrics.table()._repr_html_()
        assert f"{record['valid_error']:.4g}" in repr(metrics)
    with pytest.raises(searnn.SearnnError, match="recorded as 'losses', expected valid_error"):
        metrics.plot("losses")


@pytest.mark.parametrize("higher", [True, False])
def test_the_best_record_is_the_first_of_the_best(higher: bool) -> None:
    from searnn.reports.metrics import Metrics

    values = [0.5, 0.2, 0.9, 0.2, 0.9, None]
    records = [{"step": step, "valid_bleu": value} for step, value in enumerate(values)]
    metrics = Metrics(records, metric="bleu", higher_is_better=higher)
    assert metrics.best["step"] == (2 if higher else 1)
    empty = Metrics([], metric="bleu", higher_is_better=higher)
    assert empty.best is None
    assert "no records" in repr(empty)
    assert empty._repr_html_()


def test_the_curves_have_the_recorded_points(trained: Path) -> None:
    pytest.importorskip("matplotlib")
    run = searnn.load(trained)
    figure = run.plot()
    names = [axes.get_ylabel() for axes in figure.axes]
    assert names == ["valid error", "train loss"]
    for axes, name in zip(figure.axes, ("valid_error", "train_loss"), strict=True):
        (line,) = axes.lines
        assert list(zip(line.get_xdata(), line.get_ydata(), strict=True)) == run.metrics.column(name)
    assert len(run.plot("entropy", "seconds", "train_loss").axes) == 3
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_run_says_what_it_is(trained: Path) -> None:
    run = searnn.load(trained)
    parameters = sum(parameter.numel() for parameter in run.model.parameters())
    for shown in (repr(run), run._repr_html_()):
        best = f"{run.metrics.best['valid_error']:.4g}"
        for fact in (str(trained), "pairs", "searnn", "gru", f"{parameters:,}", best):
            assert fact in shown
    assert "\n" not in repr(run)


def test_training_in_python_is_training_on_the_command_line(tmp_path: Path) -> None:
    data = pairs_files(tmp_path)
    assert main(["train", "pairs", *data, "--level", "words", "--run", str(tmp_path / "command"), *flags(SIZES)]) == 0
    given = {data[at].removeprefix("--"): data[at + 1] for at in range(0, len(data), 2)}
    run = searnn.train("pairs", run=tmp_path / "python", show=False, level="words", **given, **SIZES)
    command = searnn.load(tmp_path / "command")
    assert run.config == command.config
    for ours, theirs in zip(run.model.parameters(), command.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    for ours, theirs in zip(run.metrics, command.metrics, strict=True):
        assert {name for name in ours if ours[name] != theirs[name]} <= {"seconds", "steps_per_second"}


def flags(settings: dict[str, object]) -> list[str]:
    return [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def test_pairs_may_be_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = searnn.train("pairs", train=PAIRS, valid=PAIRS[:3], algorithm="mle", **SIZES)
    assert run.folder == Path("runs/pairs-mle-1")
    again = searnn.train("pairs", train=PAIRS, valid=PAIRS[:3], algorithm="mle", show=False, **SIZES)
    assert again.folder == Path("runs/pairs-mle-2")
    assert "step 3/3" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path.parent)
    opened = searnn.load(tmp_path / run.folder)
    assert opened.evaluate("valid") == run.evaluate("valid") == again.evaluate("valid")
    targets = [opened.task.show(row[: row.index(opened.task.vocab.eos)]) for batch in opened.task.valid(4)
               for row in batch.targets.tolist()]  # fmt: skip
    assert sorted(targets) == sorted(target for _, target in PAIRS[:3])


def test_a_function_may_be_a_cost(tmp_path: Path) -> None:
    data = {"train": PAIRS, "valid": PAIRS[:3]}
    run = searnn.train("pairs", run=tmp_path / "own", show=False, cost=length_difference, **data, **SIZES)
    assert run.config.search.cost == f"{__name__}:length_difference"
    assert run.task.metric == "cost"
    found = [text.replace("<unk>", "?") for text in run.predict([source for source, _ in PAIRS[:3]])]
    mean = np.mean([length_difference(list(a), list(b)) for a, (_, b) in zip(found, PAIRS[:3], strict=True)])
    assert run.evaluate("valid")["cost"] == pytest.approx(mean)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"stepps": 3}, "no setting 'stepps'; did you mean steps?"),
        ({"steps": "many"}, "steps must be"),
        ({"roll_out": "learnt"}, "roll_out must be"),
        ({"heads": 3}, "heads does not apply here"),
        ({"cost": lambda output, target: 0}, "cost is <function"),
        ({"train": [("a\tb", "c")]}, r"train\[0\] is"),
        ({"train": [("a", "b"), ("a",)]}, r"train\[1\] is"),
        ({"train": None, "valid": None}, "needs --train"),
        ({"batch_size": 500}, "batch size is 500"),
    ],
)
def test_what_is_wrong_is_said_by_its_name_and_leaves_nothing(
    settings: dict[str, object], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(searnn.SearnnError, match=told) as caught:
        searnn.train("pairs", **{"train": PAIRS, "valid": PAIRS, "show": False, "run": "runs/x", **SIZES, **settings})
    assert "\n" not in str(caught.value)
    assert contents(tmp_path) == {}


def test_a_folder_that_is_taken_stays_as_it_is(trained: Path) -> None:
    before = contents(trained)
    with pytest.raises(searnn.SearnnError, match="exists already"):
        searnn.train("copy", run=trained)
    with pytest.raises(searnn.SearnnError, match="no run folder"):
        searnn.load(trained / "nothing")
    assert contents(trained) == before


class Displayed:
    """A stand-in for IPython's display: keeps what was shown and what replaced it."""

    def __init__(self) -> None:
        self.shown: list[object] = []

    def __call__(self, thing: object, *, display_id: bool) -> Displayed:
        assert display_id
        self.shown.append(thing)
        return self

    def update(self, thing: object) -> None:
        self.shown.append(thing)


def test_a_notebook_sees_a_bar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    display = Displayed()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr("searnn.runs.start.in_notebook", lambda: True)
    run = searnn.train("copy", run=tmp_path / "run", symbols=3, length=3, examples=20, **SIZES)
    first, *_, last = [thing._repr_html_() for thing in display.shown]
    assert 'value="0.0000"' in first
    assert 'value="1.0000"' in last
    assert f"error {run.metrics[-1]['valid_error']:.4g}" in last
    assert "step 3/3" in repr(display.shown[-1])
    out, err = capsys.readouterr()
    assert (out.splitlines()[-1], err) == (f"report: {run.folder / 'report.html'}", "")
