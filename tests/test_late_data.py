"""A trained run on data that came later: other test files, a file of predictions, and units it has never read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from naive import edit
from tiny_data import data_folder, write_lines

import searnn
from searnn.cli import main
from searnn.decoding import sample
from searnn.rng import generator
from searnn.sequences.ends import strip
from searnn.tasks.pairs import Pairs
from searnn.types import SearnnError

PAIRS = [("ab", "ba"), ("abc", "cba"), ("ca", "ac"), ("bb", "bb"), ("cab", "bac"), ("a", "a")]
LATE = [("abd", "dba"), ("a", "a"), ("ba", "ab"), ("cc", "cc")]
SIZES = {"width": 12, "batch_size": 6, "steps": 25, "eval_every": 25, "device": "cpu", "algorithm": "mle", "lr": 0.02}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without test data, whose files are gone."""
    folder = tmp_path_factory.mktemp("late")
    files = [write_lines(folder / name, map("\t".join, PAIRS)) for name in ("train.tsv", "valid.tsv")]
    searnn.train("pairs", run=folder / "run", show=False, train=files[:1], valid=files[1:], metric="per", **SIZES)
    for path in files:
        path.unlink()
    write_lines(folder / "late.tsv", map("\t".join, LATE))
    return folder / "run"


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    return error


@pytest.mark.parametrize("beam", [1, 3])
def test_test_data_may_come_late(run: Path, beam: int, capsys: pytest.CaptureFixture[str]) -> None:
    late, table = run.parent / "late.tsv", run.parent / f"table-{beam}.tsv"
    asked = ["eval", str(run), "--test", str(late), "--beam", str(beam), "--json", "--device", "cpu"]
    assert main([*asked, "--predictions", str(table)]) == 0
    told = json.loads(capsys.readouterr().out)
    head, *rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert head == ["source", "output", "target", "edits", "example"]
    written = searnn.load(run).predict([source for source, _ in LATE], beam=beam)
    task = searnn.load(run).task
    edits = [edit(list(ours), list(true)) for ours, (_, true) in zip(written, LATE, strict=True)]
    assert rows == [
        [task.show_source(task.read(source)), output, task.show(task.read_target(true)), str(count), str(number)]
        for number, ((source, true), output, count) in enumerate(zip(LATE, written, edits, strict=True), 1)
    ]
    assert told["metrics"]["per"] == pytest.approx(100 * sum(edits) / sum(len(true) for _, true in LATE))
    assert main(asked) == 0
    assert json.loads(capsys.readouterr().out) == told


def test_every_way_of_decoding_has_its_columns(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = run.parent / "ways.tsv"
    asked = ["eval", str(run), "--test", str(run.parent / "late.tsv"), "--beam", "1,3", "--mbr", "8", "--device", "cpu"]
    assert main([*asked, "--json", "--predictions", str(table)]) == 0
    greedy, beam, mbr = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each.get("beam"), each.get("mbr")) for each in (greedy, beam, mbr)] == [(1, None), (3, None), (None, 8)]
    head, *rows = [line.split("\t") for line in table.read_text().splitlines()]
    more = ["output, beam 3", "edits, beam 3", "output, MBR 8", "edits, MBR 8"]
    assert head == ["source", "output", "target", "edits", "example", *more]
    loaded = searnn.load(run)
    assert [row[5] for row in rows] == loaded.predict([source for source, _ in LATE], beam=3)
    for at, told in ((1, greedy), (5, beam), (7, mbr)):
        counts = [edit(list(row[at]), list(true)) for row, (_, true) in zip(rows, LATE, strict=True)]
        assert [row[3 if at == 1 else at + 1] for row in rows] == [str(count) for count in counts]
        assert told["metrics"]["per"] == pytest.approx(100 * sum(counts) / sum(len(true) for _, true in LATE))
    # The same samples, by hand: what is chosen has the least mean distance to them of all that may be chosen.
    loaded.task.take_test([run.parent / "late.tsv"])
    (batch,) = loaded.task.test(4)
    drawn = sample(loaded.model, batch, count=8, rng=generator(0, "mbr"))
    for number, row in enumerate(rows):
        at = batch.ids.index(number + 1)
        truths = [loaded.show(tokens) for tokens in strip(drawn[at], loaded.task.vocab)]
        beams = [text for text, _ in loaded.n_best([LATE[number][0]], 5)[0]]

        def risk(text: str, truths: list[str] = truths) -> int:
            return sum(edit(list(text), list(truth)) for truth in truths)

        assert risk(row[7]) == min(map(risk, [row[1], *beams, *truths]))
        assert row[7] in [row[1], *beams, *truths]

    assert main(asked) == 0
    assert f"{run}: test, MBR 8" in capsys.readouterr().out
    (run.parent / "sources.txt").write_text("".join(f"{source}\n" for source, _ in LATE))
    assert main(["predict", str(run), "--input", str(run.parent / "sources.txt"), "--mbr", "8"]) == 0
    assert capsys.readouterr().out.splitlines() == loaded.predict([source for source, _ in LATE], mbr=8)
    assert "--mbr chooses one output without a score" in refused(capsys, "predict", run, "--mbr", 8, "--scores")


def test_what_the_run_has_not_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    late = run.parent / "late.tsv"
    assert "there is no test data: give a file with --test" in refused(capsys, "eval", run, "--split", "test")
    assert "leave one of them out" in refused(capsys, "eval", run, "--test", late, "--split", "valid")
    assert "3 files were given" in refused(capsys, "eval", run, "--test", late, late, late)
    searnn.train("copy", run=tmp_path / "copy", show=False, **{**SIZES, "steps": 1, "eval_every": 1})
    assert "--test does not apply here: copy is no task on pairs" in refused(
        capsys, "eval", tmp_path / "copy", "--test", late
    )


def test_words_that_came_late_are_judged_without_the_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data_folder(tmp_path / "data", monkeypatch)
    searnn.train("g2p", run=tmp_path / "run", show=False, **{**SIZES, "steps": 1, "eval_every": 1})
    monkeypatch.setenv("SEARNN_DATA", str(tmp_path))
    write_lines(tmp_path / "late.tsv", ["abba\tA B B A"])
    assert main(["eval", str(tmp_path / "run"), "--test", str(tmp_path / "late.tsv"), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["metrics"]) == {"per", "wer"}


def test_units_that_were_never_read_are_named_once(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lines(run.parent / "in.txt", ["abd", "dab\u0436", "d", "abc"])
    capsys.readouterr()
    assert main(["predict", str(run), "--input", str(path), "--device", "cpu"]) == 0
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 4
    assert told.err.splitlines() == [
        "searnn: in no training source, and read as unknown: 'd' (U+0064)",
        "searnn: in no training source, and read as unknown: '\u0436' (U+0436)",
    ]
    write_lines(path, ["abc", "".join(map(chr, range(0x430, 0x450)))])
    assert main(["predict", str(run), "--input", str(path), "--device", "cpu"]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.count("U+") == 20
    assert line.endswith("(others are not named)")


FORMS = [
    ("walk", "walked", "V;PST"),
    ("walk", "walks", "V;PRS;3;SG"),
    ("vow", "vowed", " V ; PST"),
    ("vow", "vows", ""),
]


@pytest.mark.parametrize("column", [1, 2, 3])
@pytest.mark.parametrize("level", ["chars", "words"])
def test_features_are_units_before_the_source(column: int, level: str, tmp_path: Path) -> None:
    rows = [[source, target] for source, target, _ in FORMS]
    for row, (*_, features) in zip(rows, FORMS, strict=True):
        row.insert(column - 1, features)
    path = write_lines(tmp_path / "forms.tsv", map("\t".join, rows))
    task = Pairs([path], [path], feature_column=column, level=level)
    expected = {}
    for number, (source, target, features) in enumerate(FORMS, 1):
        front = [f"[{one.strip()}]" for one in features.split(";") if one]
        expected[number] = (front + (list(source) if level == "chars" else [source]), target)
    for batch in task.valid(2):
        for row, number in enumerate(batch.ids or ()):
            tokens = batch.inputs.values[row, : batch.inputs.lengths[row]].tolist()
            assert task.source_units(tokens) == expected[number][0]
            asked = [text for place, text in enumerate(rows[number - 1]) if text != expected[number][1]]
            assert task.read("\t".join(asked)) == tokens
    with pytest.raises(SearnnError, match="it has 1 columns: expected the source and its features"):
        task.read("walk")
    assert task.unknown_units("V;FUT\twalk" if column == 1 else "walk\tV;FUT") == ["[FUT]"]
    task.take_test([path])
    assert sum(len(batch.targets) for batch in task.test(3)) == len(FORMS)


def test_features_need_their_column(tmp_path: Path) -> None:
    two = write_lines(tmp_path / "two.tsv", ["a\tb"])
    with pytest.raises(SearnnError, match=r"1 2 columns, not three \(line 1\)"):
        Pairs([two], [two], feature_column=3).load()
    with pytest.raises(SearnnError, match="--features 3 is a column: give one file with three columns, not two files"):
        Pairs([two, two], [two], feature_column=3).load()
    with pytest.raises(SearnnError, match="feature_column is 4, it must be a whole number of at least 1 and at most 3"):
        Pairs([two], [two], feature_column=4)
    with pytest.raises(SearnnError, match="give --level chars or words"):
        Pairs([two], [two], feature_column=3, level="sentencepiece")
