"""Tables of the paper: what they run, and what is made of it. A toy stands for the data."""

import io
import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from reproduce_cases import PLAN, TOY
from rich.console import Console
from tiny_data import spelling_files

from searnn.cli import main
from searnn.jobs import experiments, pool, reproduction
from searnn.jobs.experiments import TableRow
from searnn.reports.comparison import Result
from searnn.reports.reproduction import Reproduced, TableEntry
from searnn.types import SearnnError

WILD = "mrt --optimizer sgd --lr 1e39 --clip none --warm-up 0"

# Another process that wants to write in the folder.
WAITS = """
import sys
from pathlib import Path
from searnn.training.state import held
print("waiting", flush=True)
with held(Path(sys.argv[1]), wait=True):
    pass
"""

STUB = (sys.executable, str(Path(__file__).with_name("helpers") / "compare_stub.py"))


@pytest.fixture(params=[STUB, pytest.param(pool.PROGRAM, marks=pytest.mark.slow)], ids=["stub", "real"])
def plan(monkeypatch, tmp_path, request):
    """A small table in place of the paper's, in an empty folder; what is trained is only pretended to be."""
    monkeypatch.setattr(experiments, "read", lambda name: PLAN)
    monkeypatch.setattr(pool, "PROGRAM", request.param)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def be_rank(monkeypatch, rank, ranks):
    """Set what torchrun sets."""
    own = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}
    for name, value in {**dict.fromkeys(pool.RANKS, "x"), **own}.items():
        monkeypatch.setenv(name, str(value))


def test_a_table_is_run_shown_and_written(plan, capsys):
    assert main(["reproduce", "table1", "--seeds", "2", "--jobs", "2"]) == 0
    shown = capsys.readouterr().out
    assert "A table" in shown
    assert "paper 12.5" in shown
    out = plan / "runs" / "reproduce-table1"
    record = json.loads((out / "table1.json").read_text())
    assert [(cell["row"], cell["column"], len(cell["runs"])) for cell in record["cells"]] == [
        ("Copy", "MLE", 2), ("Copy", "KL, learned", 2), ("Reversed", "MLE", 2), ("Reversed", "KL, learned", 2)
    ]  # fmt: skip
    for cell in record["cells"]:
        tested = []
        for run in cell["runs"]:
            measured = json.loads((plan / run["folder"] / "test.json").read_text())["metrics"][cell["metric"]]
            tested.append(100 * measured)
        assert cell["test"]["mean"] == pytest.approx(sum(tested) / 2)
        assert f"{sum(tested) / 2:.2f}" in shown
    assert (out / "table1.md").read_text().count("|") > 10
    page = (out / "table1.html").read_text()
    assert "paper 12.5" in page
    assert "searnn train copy --algorithm mle" in page
    assert page.count("data:image/png") == 2
    alpha = tomllib.loads((out / "reversed" / "kl-learned-1" / "config.toml").read_text())
    assert (alpha["loss"]["alpha"], alpha["task"]["reverse"], alpha["run"]["seed"]) == (7, True, 1)

    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*/metrics.jsonl")}
    assert main(["reproduce", "table1", "--seeds", "2"]) == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/*/metrics.jsonl")}  # nothing is run twice


def test_models_are_tested_with_a_beam_too(plan, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "read", lambda name: replace(PLAN, beam=2))
    assert main(["reproduce", "table1", "--seeds", "2", "--only", "copy:mle"]) == 0
    assert "beam 2: " in capsys.readouterr().out
    cell = json.loads((plan / "runs" / "reproduce-table1" / "table1.json").read_text())["cells"][0]
    found = [100 * run["test"]["error, beam 2"] for run in cell["runs"]]
    assert cell["ways"]["error, beam 2"]["mean"] == pytest.approx(sum(found) / 2)
    assert main(["reproduce", "table1", "--quick", "--only", "copy:mle"]) == 0
    assert "beam" not in capsys.readouterr().out


ENSEMBLED = replace(
    PLAN,
    beam=2,
    mbr=4,
    ensemble=3,
    metrics=["error"],
    rows={name: replace(row, groups=["both"], paper={"MLE": 50.0}) for name, row in PLAN.rows.items()},
)


def test_ensembles_are_measured_once_all_their_runs_are_finished(plan, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "read", lambda name: ENSEMBLED)
    words = ["reproduce", "table1", "--seeds", "2", "--jobs", "2"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "4 ensembles, 2 at a time" in shown
    assert "copy: MLE, ensemble of 2, test error" in shown
    out = plan / "runs" / "reproduce-table1"
    record = json.loads((out / "table1.json").read_text())
    for cell in record["cells"]:
        folder = out / cell["row"].lower() / cell["ensemble"]["folder"].rpartition("/")[2]
        assert (cell["ensemble"]["seeds"], folder.name[-13:]) == ([0, 1], "ensemble-of-2")
        measured = json.loads((folder / "test.json").read_text())["metrics"]
        assert cell["ensemble"]["test"] == measured
        assert {"error", "error, beam 2", "error, MBR 4"} <= set(measured)
        assert {"error", "error, beam 2", "error, MBR 4"} <= set(cell["runs"][0]["test"])
    means = [cell["ensemble"]["test"]["error"] for cell in record["cells"] if cell["column"] == "MLE"]
    assert record["groups"]["both"]["means"]["MLE"]["error"]["ensemble"] == pytest.approx(100 * sum(means) / 2)
    assert record["groups"]["both"]["published"] == {"error": 50.0}

    # Nothing is measured twice, until there are more seeds; the first three make an ensemble then.
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/*/test.json")}
    assert main(words) == 0
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/*/test.json")}
    capsys.readouterr()
    assert main(["reproduce", "table1", "--first-seed", "2", "--seeds", "2", "--only", "copy:mle"]) == 0
    assert "1 ensemble, " in capsys.readouterr().out
    first, *others = json.loads((out / "table1.json").read_text())["cells"]
    assert (first["ensemble"]["seeds"], len(first["runs"])) == ([0, 1, 2], 4)
    assert [cell["ensemble"]["seeds"] for cell in others] == [[0, 1]] * 3


@pytest.mark.slow
@pytest.mark.skipif("SEARNN_DATA" not in os.environ, reason="needs the real data")
def test_the_published_table_on_real_words(tmp_path, capsys):
    """A language with test words and one without, whose development words choose no model; in no time."""
    out = tmp_path / "out"
    settings = "--settings=--steps=4 --width=8 --device=cpu"
    only = ["--only", "low, Adyghe", "low, Latvian (dev)"]
    assert main(["reproduce", "sigmorphon2021", "--seeds", "2", *only, settings, "--out", str(out)]) == 0
    assert "4 ensembles" in capsys.readouterr().out
    record = json.loads((out / "sigmorphon2021.json").read_text())
    assert [(cell["row"], cell["paper"]) for cell in record["cells"]] == [
        ("low, Adyghe", 22.0), ("low, Adyghe", 22.0), ("low, Latvian (dev)", 41.0), ("low, Latvian (dev)", 41.0)
    ]  # fmt: skip
    for cell in record["cells"]:
        assert {"wer", "per", "wer, beam 5", "per, MBR 64"} <= set(cell["ensemble"]["test"])
        if "(dev)" in cell["row"]:
            assert {run["best_step"] for run in cell["runs"]} == {4}
    assert len(record["differences"]["wer"]) == len(record["differences"]["per"]) == 2 * 6
    assert record["groups"] == {}  # none is whole


def test_an_ensemble_that_cannot_be_measured_is_told_of(plan, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "read", lambda name: ENSEMBLED)
    words = ["reproduce", "table1", "--seeds", "2", "--only", "copy:mle"]
    assert main(words) == 0
    place = plan / "runs" / "reproduce-table1" / "copy" / "mle-ensemble-of-2"
    (place / "test.json").unlink()
    with monkeypatch.context() as broken:
        broken.setattr(pool, "PROGRAM", (sys.executable, "-c", "raise SystemExit('searnn: error: no room')"))
        assert main(words) == 1
    assert "mle-ensemble-of-2: no room" in capsys.readouterr().out
    record = json.loads((place.parents[1] / "table1.json").read_text())
    assert record["cells"][0]["ensemble"] is None
    assert main(words) == 0
    assert (place / "test.json").is_file()


def test_the_files_have_what_earlier_commands_made_too(plan, capsys):
    out = plan / "runs" / "reproduce-table1"
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "reversed:mle"]) == 0
    first = json.loads((out / "table1.json").read_text())["cells"]
    assert "seed 0; best" in capsys.readouterr().out
    assert main(["reproduce", "table1", "--seeds", "2", "--only", "copy:kl, learned"]) == 0
    shown = capsys.readouterr().out
    assert "each cell's own seeds, from 0 to 1" in " ".join(shown.split())
    cells = json.loads((out / "table1.json").read_text())["cells"]
    assert [(cell["row"], cell["column"], len(cell["runs"])) for cell in cells] == [
        ("Copy", "KL, learned", 2), ("Reversed", "MLE", 1)
    ]  # fmt: skip
    assert cells[1] == first[0]
    assert (out / "table1.html").read_text().count("data:image/png") == 2
    assert "| Reversed |" in (out / "table1.md").read_text()
    # More seeds of a cell are added to it; other settings are another cell in its place.
    assert main(["reproduce", "table1", "--first-seed", "5", "--seeds", "1", "--only", "copy:kl, learned"]) == 0
    cells = json.loads((out / "table1.json").read_text())["cells"]
    assert [[run["seed"] for run in cell["runs"]] for cell in cells] == [[0, 1, 5], [0]]
    other = ["--first-seed", "6", "--seeds", "1", "--settings", "--clip 1"]
    assert main(["reproduce", "table1", *other, "--only", "copy:kl, learned"]) == 0
    cells = json.loads((out / "table1.json").read_text())["cells"]
    assert [[run["seed"] for run in cell["runs"]] for cell in cells] == [[6], [0]]


def test_a_record_of_an_earlier_version_is_read(plan, capsys):
    words = ["reproduce", "table1", "--only", "copy:mle", "--seeds", "1", "--out", "out"]
    assert main([*words, "--quick"]) == 0
    record = json.loads((plan / "out" / "table1.json").read_text())
    del record["quick"], record["checksum"]
    (plan / "out" / "table1.json").write_text(json.dumps(record))
    assert main([*words, "--quick"]) == 0
    (plan / "out" / "table1.json").write_text(json.dumps(record))
    assert main(words) == 2
    assert "out holds a table with the small budget of --quick" in capsys.readouterr().err


def test_what_cannot_stand_in_one_table_is_refused_before_anything_is_run(plan, capsys):
    words = ["reproduce", "table1", "--seeds", "1", "--out", "out"]
    assert main([*words, "--only", "copy:mle"]) == 0
    assert main([*words, "--only", "reversed:mle", "--quick"]) == 2
    assert "out holds a table with the whole budget: give another folder" in capsys.readouterr().err
    record = json.loads((plan / "out" / "table1.json").read_text())
    record["cells"][0]["metric"] = "another"
    del record["checksum"]
    (plan / "out" / "table1.json").write_text(json.dumps(record))
    assert main([*words, "--only", "copy:kl, learned"]) == 2
    assert "out holds a table with Copy by another, not by error" in capsys.readouterr().err
    assert not list((plan / "out").glob("*/kl*")) + list((plan / "out").glob("reversed/*"))


def test_a_damaged_record_is_refused_before_anything_is_run(plan, capsys):
    out = plan / "runs" / "reproduce-table1"
    out.mkdir(parents=True)
    (out / "table1.json").write_text('{"cells": [{"row": 3}]}')
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "copy:mle"]) == 2
    assert "table1.json is damaged (note: field required): remove it" in capsys.readouterr().err
    assert not (out / "copy").exists()


def test_the_mean_of_the_rows_is_of_columns_that_all_rows_have(plan, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "read", lambda name: replace(PLAN, mean_of_rows=True))
    assert main(["reproduce", "table1", "--seeds", "2", "--only", "mle", "copy:kl, learned"]) == 0
    out = plan / "runs" / "reproduce-table1"
    record = json.loads((out / "table1.json").read_text())
    both = [cell["test"]["mean"] for cell in record["cells"] if cell["column"] == "MLE"]
    assert record["means"] == {"MLE": pytest.approx(sum(both) / 2)}
    assert f"| mean of 2 | {sum(both) / 2:.2f} | - |" in (out / "table1.md").read_text()
    assert "mean of 2" in capsys.readouterr().out
    assert "mean of 2" in (out / "table1.html").read_text()


def test_who_ends_last_has_all_in_the_files(plan, capsys, monkeypatch):
    """A rank that has looked at the runs writes before another looks: else the files could lack what the other had."""
    be_rank(monkeypatch, 0, 2)
    out, write, other = plan / "runs" / "reproduce-table1", reproduction.write, []

    def meanwhile(*given):
        if not other:  # the other rank comes to its end while this one is writing
            other.append(subprocess.Popen([sys.executable, "-c", WAITS, str(out)], stdout=subprocess.PIPE, text=True))
            assert other[0].stdout.readline() == "waiting\n"
            with pytest.raises(subprocess.TimeoutExpired):
                other[0].wait(0.5)
        return write(*given)

    monkeypatch.setattr(reproduction, "write", meanwhile)
    assert main(["reproduce", "table1", "--seeds", "2", "--only", "copy:mle"]) == 0
    other[0].communicate(timeout=20)
    assert other[0].returncode == 0


def test_runs_of_one_name_in_several_rows_are_told_of(plan, capsys):
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "mle"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("copy: MLE, seed 0: ") == shown.count("reversed: MLE, seed 0: ") == 1


def test_shares_together_are_all(plan, capsys, monkeypatch):
    words = ["reproduce", "table1", "--seeds", "1", "--jobs", "1", "--only", "copy", "--quick"]
    assert main([*words, "--share", "0/2"]) == 0
    first = capsys.readouterr().out
    assert "QUICK" in first
    assert "1 of 1 missing" in first
    be_rank(monkeypatch, 1, 2)
    assert main(words) == 0
    assert "missing" not in capsys.readouterr().out
    record = json.loads((plan / "runs" / "reproduce-table1-quick" / "table1.json").read_text())
    assert {run["steps"] for cell in record["cells"] for run in cell["runs"]} == {10}
    assert {cell["row"] for cell in record["cells"]} == {"Copy"}


def test_a_rank_that_ends_first_leaves_the_table_to_the_others(plan, capsys, monkeypatch):
    be_rank(monkeypatch, 0, 2)
    assert main(["reproduce", "table1", "--seeds", "2", "--only", "copy:mle"]) == 0
    shown = capsys.readouterr().out
    assert "1 run (share 0 of 2)" in shown
    assert "1 of the runs of other ranks to come" in shown
    assert "A table" not in shown
    cells = json.loads((plan / "runs" / "reproduce-table1" / "table1.json").read_text())["cells"]
    assert [len(cell["runs"]) for cell in cells] == [1]


@pytest.mark.slow
def test_ranks_share_a_table(tmp_path):
    """By torchrun itself: each rank trains half, and the one that ends last shows all."""
    settings = "--steps 2 --eval-every 2 --batch-size 8 --width 8 --device cpu"
    words = ["--only", "Spelling 0.3:MLE", "--seeds", "2", "--jobs", "1", "--settings", settings]
    ended = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "--",
         "searnn.cli", "reproduce", "table1", *words, "--out", str(tmp_path / "out")],
        capture_output=True, text=True, env={**os.environ, "SEARNN_DATA": str(spelling_files(tmp_path))},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("1 run (share ") == 2
    assert "paper 19.3" in ended.stdout
    assert [len(cell["runs"]) for cell in json.loads((tmp_path / "out" / "table1.json").read_text())["cells"]] == [2]


def test_a_failure_on_one_rank_is_no_reason_to_end_the_others(plan, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "read", lambda name: replace(PLAN, columns={"Wild": WILD}))
    be_rank(monkeypatch, 0, 2)
    assert main(["reproduce", "table1", "--seeds", "2", "--only", "copy"]) == 0
    assert capsys.readouterr().out.count("failed: ") == 1
    be_rank(monkeypatch, 1, 2)
    assert main(["reproduce", "table1", "--seeds", "2", "--only", "copy"]) == 1  # there are no others any more
    assert "2 of 2 failed" in capsys.readouterr().out  # what failed on the other rank, too
    be_rank(monkeypatch, 0, 1)
    monkeypatch.setattr(experiments, "read", lambda name: replace(PLAN, columns={"Wild": "mle"}))
    shutil.rmtree(plan / "runs" / "reproduce-table1" / "copy" / "wild-0")
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "copy"]) == 0
    assert "failed" not in capsys.readouterr().out  # a run that comes to its end has not failed any more


def test_a_quick_look_has_one_seed(plan, capsys):
    assert main(["reproduce", "table1", "--quick", "--only", "copy:mle"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1 run,")
    assert "Test %, seed 0; best model by validation." in " ".join(shown.split())
    assert main(["reproduce", "table1", "--quick", "--seeds", "2", "--only", "copy:mle"]) == 0
    assert capsys.readouterr().out.startswith("2 runs")


def test_a_run_that_another_process_has_finished_has_not_failed(plan, capsys):
    words = ["reproduce", "table1", "--seeds", "1", "--only", "copy:mle"]
    assert main(words) == 0
    cells = json.loads((plan / "runs" / "reproduce-table1" / "table1.json").read_text())["cells"]
    (plan / "runs" / "reproduce-table1" / "copy" / "mle-0.failed").write_text("it is in use")
    assert main(words) == 0
    assert "failed" not in capsys.readouterr().out
    assert json.loads((plan / "runs" / "reproduce-table1" / "table1.json").read_text())["cells"] == cells


def test_the_papers_numbers_stand_beside_its_own_data_alone(plan, capsys, monkeypatch):
    rows = {name: replace(row, paper={"MLE": 12.5}) for name, row in PLAN.rows.items()}
    rows["Copy"] = replace(rows["Copy"], paper_needs={"reverse": True})
    rows["Reversed"] = replace(rows["Reversed"], paper_needs={"reverse": True})
    monkeypatch.setattr(experiments, "read", lambda name: replace(PLAN, rows=rows, note="Few can be compared."))
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "MLE"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("paper 12.5") == 1
    assert "Few can be compared. Copy: other data than the paper's, without its numbers." in shown
    cells = json.loads((plan / "runs" / "reproduce-table1" / "table1.json").read_text())["cells"]
    assert ["--no-reverse" in cell["command"] for cell in cells] == [True, False]
    assert cells[1]["command"].count("--reverse") == 1


def test_other_settings_are_told_of(plan, capsys):
    words = ["reproduce", "table1", "--seeds", "1", "--only", "copy:mle"]
    assert main(words) == 0
    assert main([*words, "--first-seed", "1", "--settings", "--clip 1"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    told = "Copy, MLE: what earlier runs have (seeds 0) is left out, their settings were others: searnn train copy"
    assert f"{told} --algorithm mle --steps 20" in shown
    assert "All with --clip 1." in shown
    assert "All with --clip 1." in (plan / "runs" / "reproduce-table1" / "table1.html").read_text()
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "reversed:mle", "--settings", "--clip 2"]) == 0
    assert "All with" not in capsys.readouterr().out  # not all


def test_columns_stand_in_the_order_of_the_table(plan, capsys):
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "copy:kl, learned", "reversed"]) == 0
    head = (plan / "runs" / "reproduce-table1" / "table1.md").read_text().splitlines()[2]
    assert head == "| | MLE | KL, learned |"


@pytest.mark.parametrize(("rows", "columns", "width", "upright"), [
    (1, 6, 200, False), (1, 6, 100, True), (1, 6, 40, True), (4, 8, 80, True), (10, 3, 150, False), (1, 13, 400, True)
])  # fmt: skip
def test_a_table_is_read_on_any_terminal(rows, columns, width, upright):
    """Where there is no room for the paper's columns beside each other they stand below each other, nothing cut."""
    names = [f"LL, {number}" for number in range(columns)]
    result = Result("x", 0, "folder", 1, 0.12, {"error": 0.1234}, 10, 60.0, 0.1, [])
    places = [(f"Fold {row}", name) for row in range(rows) for name in names]
    cells = [TableEntry(row, name, "searnn train", 1.5, "error", [result], [0]) for row, name in places]
    table = Reproduced("table2", "A title", "A note.", "%", 100, cells, names)
    console = Console(width=width, file=io.StringIO())
    console.print(table.terminal(console))
    shown = console.file.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert shown.count("12.34") == shown.count("1.5") == rows * columns
    assert all(shown.count(name.split(", ")[0]) >= 1 and name.split(", ")[1] in shown for name in names)
    assert "…" not in shown
    assert shown.count("├") == (columns if upright else rows) - 1  # between the lines


def test_a_data_set_that_is_not_there_can_be_left_out(plan, capsys, monkeypatch):
    there = {**PLAN.rows, "Else": TableRow("pairs", "--train none.tsv --valid none.tsv --test none.tsv")}
    monkeypatch.setattr(experiments, "read", lambda name: replace(PLAN, rows=there, columns={"MLE": "mle"}))
    assert main(["reproduce", "table1", "--seeds", "1"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("searnn: error: Else: ")
    assert "none.tsv cannot be read" in told
    assert told.rstrip().endswith("; without it: --only Copy Reversed")
    assert not (plan / "runs").exists()
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "copy", "else"]) == 2
    assert "without it" not in capsys.readouterr().err  # which would be all of the others


def test_what_cannot_be_drawn_is_told(plan, capsys, monkeypatch):
    def refuse(*_):
        raise SearnnError("there is no brush")

    monkeypatch.setattr("searnn.reports.reproduction.draw_comparison", refuse)
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "mle"]) == 0
    assert capsys.readouterr().out.count("no pictures: there is no brush") == 1


def test_many_methods_stand_below_each_other(plan, capsys, monkeypatch):
    many = {f"width {width}": f"mle --width {width}" for width in range(4, 17)}
    tall = replace(PLAN, columns=many, rows={**PLAN.rows, "Reversed": TableRow("copy", TOY, without=("width 4",))})
    monkeypatch.setattr(experiments, "read", lambda name: tall)
    assert main(["reproduce", "ablations", "--seeds", "1", "--only", "width 4", "width 5", "width 16"]) == 0
    assert "width 4" in capsys.readouterr().out
    monkeypatch.setattr("searnn.reports.reproduction.MOST_ACROSS", 2)
    assert main(["reproduce", "ablations", "--seeds", "1", "--only", "width 4", "width 5", "width 16"]) == 0
    out = plan / "runs" / "reproduce-ablations"
    lines = [line for line in (out / "ablations.md").read_text().splitlines() if line.startswith("|")]
    assert [line.split("|")[1].strip() for line in lines] == ["", "---", "width 4", "width 5", "width 16"]
    assert lines[0] == "| | Copy | Reversed |"
    assert lines[2].split("|")[3].strip() == ""  # what makes no sense there is not run
    assert '<th scope="col">Reversed</th>' in (out / "ablations.html").read_text()


def test_a_run_that_fails_is_shown_and_stops_no_other(plan, capsys, monkeypatch):
    monkeypatch.setattr(experiments, "read", lambda name: replace(PLAN, columns={"Wild": WILD, **PLAN.columns}))
    assert main(["reproduce", "table1", "--seeds", "1", "--only", "copy"]) == 1
    shown = capsys.readouterr().out
    assert shown.count("1 of 1 failed") == 1
    assert "missing" not in shown
    out = plan / "runs" / "reproduce-table1"
    wild, *others = json.loads((out / "table1.json").read_text())["cells"]
    assert list(wild["failed"]) == ["0"]
    assert f"failed: {Path('runs/reproduce-table1/copy/wild-0')}: {wild['failed']['0']}" in shown
    assert "this one fails" in wild["failed"]["0"] or "finite" in wild["failed"]["0"]
    assert not wild["runs"]
    assert all(len(cell["runs"]) == 1 and not cell["failed"] for cell in others)
    page = (out / "table1.html").read_text()
    assert "Copy, Wild, seed 0: " in page


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--share", "2/2"], "--share: must be I/N"),
        (["--share", "half"], "I/N"),
        (["--only", "copy", "nothing"], "--only nothing: table1 has no such entry"),
        (["--settings", "--no-such 1"], "--no-such"),
        (["--settings", "--alpha 3"], "Copy, MLE: --alpha does not apply here"),
        (["--settings", "steps 1"], "--settings: must be flags with their values"),
        (["--settings", "--steps '1"], "--settings: must be flags with their values"),
    ],
)
def test_what_is_wrong_is_said(plan, capsys, words, told):
    assert main(["reproduce", "table1", *words]) == 2
    assert told in capsys.readouterr().err
    assert not list(plan.iterdir())


def test_numbers_of_ranks_mean_nothing_without_torchrun(plan, capsys, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")  # some systems set it for purposes of their own
    assert main(["reproduce", "table1", "--seeds", "2", "--only", "copy:mle"]) == 0
    assert capsys.readouterr().out.startswith("2 runs, ")


def test_a_rank_has_its_own_share(plan, capsys, monkeypatch):
    be_rank(monkeypatch, 0, 2)
    assert main(["reproduce", "table1", "--share", "0/2"]) == 2
    assert "leave out --share" in capsys.readouterr().err
