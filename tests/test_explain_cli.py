"""`searnn explain` from runs as they lie on the disk, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tiny import clone, copy_flags, ocr_flags, pairs_flags, tiny_letters

from searnn.cli import main
from searnn.data.batching import unlabelled
from searnn.runs import load
from searnn.training import checkpoints, predict_tokens

if TYPE_CHECKING:
    from tiny import Refused


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs: letters, the toy with models kept at every step, and pairs by MLE."""
    folder = tmp_path_factory.mktemp("runs")
    assert main(ocr_flags(tiny_letters(folder / "letters.npz"), folder / "ocr")) == 0
    assert main([*copy_flags(folder / "copy"), "--keep-every", "1", "--loss", "ll", "--attention", "additive"]) == 0
    assert main([*pairs_flags(folder, folder / "pairs"), "--algorithm", "mle"]) == 0
    return folder


def data_of(page: Path) -> dict[str, Any]:
    """What the page was made of."""
    found = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    made: dict[str, Any] = json.loads(found[1])
    return made


def explain(run: Path, out: Path, *words: str) -> dict[str, Any]:
    assert main(["explain", str(run), "--device", "cpu", "--out", str(out), *words]) == 0
    return data_of(out)


def test_a_line_with_its_target(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    made = explain(runs / "copy", tmp_path / "page.html", "--input", "2 0 1", "--target", "2 0 1")
    assert capsys.readouterr().out == f"{tmp_path / 'page.html'}\n"
    assert (made["truth"], made["eos"], made["stands_in"]) == ([2, 0, 1, 3], 3, False)
    assert made["inputs"] == {"kind": "tokens", "units": ["2", "0", "1"]}
    assert (made["roll_ins"], made["roll_outs"]) == (["reference", "learned"], ["reference", "learned", "mixed"])
    start = made["start"]
    assert (start["loss"], start["roll_in"], start["roll_out"]) == ("ll", 1, 2)  # as it was trained
    best = checkpoints.load(runs / "copy" / "best")[1]["record"]["step"]
    assert [moment["step"] for moment in made["moments"]] == [0, 1, 2, 3]
    assert "best" in made["moments"][start["moment"]]["name"]
    assert made["moments"][start["moment"]]["step"] == best
    assert made["rolled_in"][0][0]["logs"] != made["rolled_in"][3][0]["logs"]
    assert all(sum(row) == pytest.approx(1, abs=0.01) for row in made["rolled_in"][0][0]["looks"])


def test_without_a_target_the_best_models_output_stands_in(runs: Path, tmp_path: Path) -> None:
    made = explain(runs / "copy", tmp_path / "page.html", "--input", "2 0 1")
    loaded = load(runs / "copy")
    own = predict_tokens(loaded.model, [unlabelled([[2, 0, 1]], loaded.task.vocab, [5])])[0]
    assert made["stands_in"]
    assert made["truth"] == [*own, 3]
    learned = made["searches"][made["views"][made["start"]["moment"]][1][1]]["costs"]
    prefix = made["rolled_in"][made["start"]["moment"]][1]["prefix"]
    assert all(row[made["tokens"].index(token)] == 0 for row, token in zip(learned, prefix, strict=True))


@pytest.mark.parametrize("name", ["ocr", "copy", "pairs"])
def test_examples_go_by_the_numbers_that_the_report_shows(runs: Path, tmp_path: Path, name: str) -> None:
    for split in ("test", "valid"):
        words = ["report", str(runs / name), "--device", "cpu", "--out", str(tmp_path / "report.html")]
        assert main([*words, "--split", split]) == 0
        found = data_of(tmp_path / "report.html")["examples"]
        shown = [*found["worst"], *found["best"]]
        assert shown
        for example in shown[:: max(1, len(shown) - 1)]:
            made = explain(runs / name, tmp_path / "page.html", "--example", str(example["number"]), "--split", split)
            truth = [token for token in made["truth"] if token != made["eos"]]
            expected = [true for _, _, true in example["edits"] if true is not None]
            assert [made["names"][str(token)] for token in truth] == expected
            if name == "ocr":
                assert len(made["inputs"]["letters"]) == len(truth) == len(example["pixels"])
                assert made["hidden_tokens"] == 0
                assert len(made["tokens"]) == 26


def test_examples_of_lines_go_by_the_line(runs: Path, tmp_path: Path) -> None:
    lines = (runs / "test.tsv").read_text().splitlines()
    for number, line in enumerate(lines, 1):
        made = explain(runs / "pairs", tmp_path / "page.html", "--example", str(number))
        assert made["inputs"]["units"] == line.split("\t")[0].split()


def test_without_test_data_examples_are_those_for_validation(runs: Path, tmp_path: Path, refused: Refused) -> None:
    run = clone(runs / "pairs", tmp_path / "run")
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(re.sub(r"test = \[.*?\]\n", "", text, flags=re.DOTALL))
    first = (runs / "valid.tsv").read_text().splitlines()[0]
    made = explain(run, tmp_path / "page.html", "--example", "1")
    assert made["inputs"]["units"] == first.split("\t")[0].split()
    assert "test" in refused("explain", run, "--example", "1", "--split", "test", "--out", "p.html")


def test_letters_from_a_file(runs: Path, tmp_path: Path) -> None:
    letters = str(runs / "letters.npz")
    words = [explain(runs / "ocr", tmp_path / f"{n}.html", "--input", letters, "--example", str(n)) for n in (0, 3)]
    assert [len(word["truth"]) for word in words] == [3, 4]
    assert all(word["stands_in"] for word in words)
    told = explain(runs / "ocr", tmp_path / "page.html", "--input", letters, "--target", "abc")
    assert told["truth"] == [0, 1, 2]


def test_a_run_of_another_algorithm_and_the_flags_of_the_view(runs: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra plots")
    words = ("--roll-in", "reference", "--roll-out", "learned", "--loss", "ll", "--alpha", "7")
    pictures = ("--png", str(tmp_path / "a.png"), "--svg", str(tmp_path / "a.svg"))
    made = explain(runs / "pairs", tmp_path / "page.html", "--input", "a b", "--target", "b q", *words, *pictures)
    assert (made["start"]["roll_in"], made["start"]["roll_out"], made["start"]["loss"]) == (0, 1, "ll")
    assert made["start"]["alpha"] == 7 in made["alphas"]
    assert any("trained by mle" in note for note in made["notes"])
    assert any("not in the vocabulary" in note for note in made["notes"])
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert main(["explain", str(runs / "pairs"), "--input", "a b", "--png", str(tmp_path / "b.png")]) == 0


def test_of_many_checkpoints_some_are_shown(runs: Path, tmp_path: Path) -> None:
    run = clone(runs / "copy", tmp_path / "run")
    tensors, meta = checkpoints.load(run / "kept" / "0")
    for step in range(100, 120):
        checkpoints.keep(run, step, tensors, meta)
    made = explain(run, tmp_path / "page.html", "--input", "0")
    steps = [moment["step"] for moment in made["moments"]]
    assert len(steps) <= 12
    assert steps == sorted(steps)
    assert {0, 119} <= {*steps}
    assert any(f"Of 24 checkpoints {len(steps)} are shown" in note for note in made["notes"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--input", "0 1"), "nothing would be written: give --out FILE"),
        (("--out", "p.html"), "there is nothing to explain: give an input with --input TEXT"),
        (("--out", "none/p.html", "--input", "0"), "--out none/p.html: it must be a file in a folder that is there"),
        (("--out", ".", "--input", "0"), "--out .: it must be a file in a folder"),
        (("--out", "/dev/null", "--input", "0"), "--out /dev/null: it must be a file in a folder"),
        (("--out", "p.html", "--input", "0 x"), "--input '0 x' is bad: expected symbols from 0 to 2"),
        (("--out", "p.html", "--input", "0", "--target", "9"), "--target has '9'"),
        (("--out", "p.html", "--input", "0", "--target", " "), "--target is empty"),
        (("--out", "p.html", "--input", "0", "--example", "1"), "--input and --example are two inputs"),
        (("--out", "p.html", "--input", "0", "--split", "test"), "--split says where --example is"),
        (("--out", "p.html", "--example", "99"), "the test data has 2 examples between 0 and 1: take a number"),
        (("--out", "p.html", "--example", "-1"), "must be a whole number of at least 0"),
        (("--out", "p.html", "--input", "0", "--roll-out", "mixd"), "the roll-out is 'mixd', it must be one of"),
        (("--out", "p.html", "--input", "0", "--alpha", "-1"), "--alpha is -1.0, it must be a finite number"),
        (("--out", "p.html", "--input", "0", "--alpha", "nan"), "--alpha is nan"),
        (("--out", "p.html", "--input", "0", "--loss", "l1"), "NAME must be one of kl, ll, got 'l1'"),
    ],
)
def test_mistakes_are_told_in_one_line(runs: Path, refused: Refused, words: tuple[str, ...], told: str) -> None:
    assert told in refused("explain", runs / "copy", *words)


def test_other_mistakes(runs: Path, tmp_path: Path, refused: Refused) -> None:
    assert "there is no run folder" in refused("explain", "nowhere", "--input", "0", "--out", "p.html")
    letters = ("--input", str(runs / "letters.npz"), "--out", "p.html")
    assert "--target has 2 tokens, the input has 3" in refused("explain", runs / "ocr", *letters, "--target", "ab")
    assert "has the words 0 to 39" in refused("explain", runs / "ocr", *letters, "--example", "40")
    assert "cannot be read as letters" in refused("explain", runs / "ocr", "--input", "abc", "--out", "p.html")
    assert "letters with --input FILE" in refused("explain", runs / "ocr", "--out", "p.html")
    run = clone(runs / "copy", tmp_path / "damaged")
    tensors = next((run / "kept" / "1").glob("*.safetensors"))
    tensors.write_bytes(tensors.read_bytes()[:-8])
    assert "truncated or damaged" in refused("explain", run, "--input", "0", "--out", "p.html")
