"""`searnn headroom`: what is measured against naive loops, the forecast's shape, the record, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model
from hypothesis import given
from hypothesis import strategies as some
from naive import Example, all_outputs, edit, strip
from report_cases import data_of
from tiny import Refused, clone, copy_flags, pairs_flags

import searnn
from searnn.cli import main
from searnn.costs import EditDistance
from searnn.decoding import decode
from searnn.reports.bootstrap import Estimate, estimate
from searnn.reports.headroom import NAME, Headroom, Plan, kept, measuring, words
from searnn.reports.headroom.forecast import CALIBRATED, Calibration, forecast
from searnn.reports.headroom.prefixes import along
from searnn.reports.headroom.temperature import TRIED, fitting
from searnn.reports.page import read_run
from searnn.sequences import seal
from searnn.tasks.common.metrics import edit_error
from searnn.types import SearnnError


def naive_counts(model, batch, prefixes):
    """Every token at every cell, completed as well as can be, one by one."""
    vocab, total = model.vocab, dict.fromkeys(("cells", "mistakes", "loss", "entropy", "later_cells"), 0.0)
    total |= {"later_mistakes": 0.0}
    for b, prefix in enumerate(prefixes.tolist()):
        example, erred = Example(model, batch, b), False
        tokens = [token for token in prefix if token != vocab.pad]
        for cell, _ in enumerate(tokens):
            scores = example.scores(tokens[:cell])
            norm = math.log(sum(map(math.exp, scores.values())))
            if vocab.eos is None:
                costs = {token: token != example.truth[cell] for token in scores}
            else:
                costs = {
                    token: edit(strip(example.optimal([*tokens[:cell], token]), vocab), example.truth)
                    for token in scores
                }
            right = [token for token in scores if costs[token] == min(costs.values())]
            wrong = max(scores, key=scores.get) not in right
            total["cells"] += 1
            total["mistakes"] += wrong
            total["later_cells"] += erred
            total["later_mistakes"] += erred and wrong
            total["loss"] -= math.log(sum(math.exp(scores[token] - norm) for token in right))
            total["entropy"] -= sum(math.exp(score - norm) * (score - norm) for score in scores.values())
            erred = erred or wrong
    return total


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_mistakes_and_losses_along_prefixes_are_those_of_a_naive_loop(vocab, seed):
    model = make_model(vocab, seed=seed, spread=2.0)
    batch = make_batch(vocab, lengths=(5, 2, 4, 1, 3), seed=seed, room=1)
    own = decode(model, batch)
    for prefixes in (seal(batch.targets, batch.lengths, vocab), own):
        found, naive = along(model, batch, prefixes), naive_counts(model, batch, prefixes)
        for name, value in naive.items():
            assert found[name] == pytest.approx(value), name
        assert found["first_cells"] == naive["cells"] - naive["later_cells"]
        assert found["first_mistakes"] == naive["mistakes"] - naive["later_mistakes"]
    if vocab is FREE and seed == 0:
        assert naive["later_mistakes"] > 0, "something is worth counting"


class Tempered(Example):
    """An example whose model has its scores divided by a temperature."""

    def __init__(self, model, batch, number, temperature):
        super().__init__(model, batch, number)
        self.temperature = temperature

    def scores(self, prefix):
        return {token: score / self.temperature for token, score in super().scores(prefix).items()}


@pytest.mark.parametrize("spread", [0.5, 6.0], ids=["even", "sharp"])
@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_the_temperature_is_that_at_which_the_truth_is_most_likely(vocab, spread):
    """The scores of every true token one by one; and where the model itself has written the truth, none is better."""
    model = make_model(vocab, seed=1, spread=spread)
    batch = make_batch(vocab, lengths=(5, 2, 4, 1, 3), seed=2).with_vocab(vocab)
    losses = dict.fromkeys(TRIED, 0.0)
    for b, truth in enumerate(seal(batch.targets, batch.lengths, vocab).tolist()):
        tokens = [token for token in truth if token != vocab.pad]
        for temperature in TRIED:
            example = Tempered(model, batch, b, temperature)
            for cell, token in enumerate(tokens):
                scores = example.scores(tokens[:cell])
                losses[temperature] += math.log(sum(map(math.exp, scores.values()))) - scores[token]
    assert fitting(model, [batch]) == min(losses, key=losses.get)


class OneBatch:
    """A task whose every split is one batch."""

    name, metric, higher_is_better, features, source_size = "tiny", "error", False, None, 7

    def __init__(self, batch):
        self.given, self.vocab, self.steps_per_epoch = batch, batch.vocabulary, 1
        self.valid = self.test = lambda size: [batch]
        self.train = lambda size, seed: self

    def batch(self, step):
        return self.given

    def metrics(self, outputs, targets):
        return {"error": edit_error(outputs, targets)}

    def show(self, tokens):
        return str(tokens)


@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_what_is_measured_of_a_model_is_what_enumeration_gives(vocab, monkeypatch: pytest.MonkeyPatch):
    """Every output of a tiny model with its probability: what MBR spares, what no sample has, and the metrics."""
    model = make_model(vocab, seed=3, spread=1.5)
    batch = make_batch(vocab, lengths=(3, 2, 3, 1)).with_vocab(vocab)
    monkeypatch.setattr(measuring, "AGAINST", 1000)
    cost = EditDistance(vocab, normalised=False)
    found, train = measuring.measure(model, OneBatch(batch), cost, Plan(samples=1000), 4, lambda _: None)
    targets = [strip(row, vocab) for row in batch.targets.tolist()]
    total, least, reach, chosen = 0.0, 0.0, [], []
    for b, target in enumerate(targets):
        example = Tempered(model, batch, b, found.temperature)
        space = [(strip(list(tokens), vocab), math.exp(share)) for tokens, share in all_outputs(example)]

        def risk(output, space=space):
            return sum(share * edit(output, other) for other, share in space)

        ranked = sorted((risk(output), output) for output, _ in space)
        total, least = total + risk(strip(example.greedy([]), vocab)), least + ranked[0][0]
        chosen.append(ranked[0][1])
        reach.append(min(edit(output, target) for output, share in space if share > 0.01))
    assert found.spared == pytest.approx(1 - least / total, abs=0.05)
    cells = sum(max(1, len(target)) for target in targets)
    assert found.ways["best"].metric.value <= sum(reach) / cells + 1e-9, "what is likely is among so many samples"
    greedy = [strip(Example(model, batch, b).greedy([]), vocab) for b in range(len(targets))]
    assert found.ways["greedy"].metric.value == pytest.approx(edit_error(greedy, targets))
    assert found.ways["mbr"].metric.value == pytest.approx(edit_error(chosen, targets), abs=0.3)
    assert found.prefixes == train.prefixes, "the same data"
    assert train.ways.keys() == {"greedy"}


share = some.floats(0, 1, allow_nan=False)


@given(share, share, share, share, share, share, some.floats(0, 2))
def test_the_forecast_grows_with_what_mbr_gains_and_with_the_mistakes_that_follow(
    gain, more, lacks, following, first, second, width
):
    calibration = Calibration(first, second, width)
    greedy = Estimate(lacks, lacks - 0.01, lacks + 0.01)
    one = forecast(gain, greedy, lacks, following, calibration)
    assert one.gain <= forecast(gain + more, greedy, lacks, following, calibration).gain
    assert one.gain <= forecast(gain, greedy, lacks, following + more, calibration).gain
    assert one.low <= one.gain <= one.high
    assert forecast(-gain, greedy, lacks, 0.0, calibration).gain == 0, "what MBR loses is no headroom"


def test_the_forecast_and_its_interval_by_hand():
    found = forecast(0.02, Estimate(0.2, 0.1608, 0.2392), 0.2, 0.25, Calibration(0.5, 0.1, 1.5))
    assert found.gain == pytest.approx(0.5 * 0.02 + 0.1 * 0.25 * 0.2)
    assert found.high == pytest.approx(2 * found.gain + 1.5 * 0.02)
    assert found.low == pytest.approx(found.gain / 2 - 1.5 * 0.02)


def test_an_interval_holds_as_many_as_its_width_says():
    """Gains that are off by normal draws of the standard error: 1.645 of them hold 9 of 10."""
    draws = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    metric = estimate(0.3, 0.3 + 0.02 * draws)
    assert metric.error == pytest.approx(0.02, rel=0.05)
    told = forecast(0.0, metric, 0.3, 0.0, Calibration(0.5, 0.1, 1.645))
    gains = 0.02 * draws
    assert float(((told.low <= gains) & (gains <= told.high)).double().mean()) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("average", "smoothing", "told"),
    [
        (0.999, 0.1, []),
        (0.0, 0.1, ["average the weights (--average 0.999)"]),
        (0.0, 0.0, ["average the weights", " and smooth the labels (--label-smoothing 0.1): it costs nothing"]),
    ],
)
def test_better_settings_come_first_where_the_run_does_without(average, smoothing, told):
    found = " ".join(words.unused({"average": average, "label_smoothing": smoothing}))
    assert all(part in found for part in told)
    assert bool(found) == bool(told)
    assert ("smooth" in found) == (not smoothing)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of the toy: by maximum likelihood and by SEARNN; and one on pairs of words."""
    folder = tmp_path_factory.mktemp("base")
    assert main([*copy_flags(folder / "mle"), "--algorithm", "mle", "--examples", "480", "--steps", "30"]) == 0
    assert main(copy_flags(folder / "searnn")) == 0
    assert main([*pairs_flags(folder, folder / "pairs"), "--algorithm", "mle", "--metric", "bleu"]) == 0
    return folder


@pytest.fixture
def runs(base: Path, tmp_path: Path) -> Path:
    return clone(base, tmp_path / "runs")


def test_the_record_is_what_the_model_does(runs: Path):
    run = searnn.load(runs / "mle")
    found = run.headroom(examples=1000, samples=4)
    assert found.greedy.value == pytest.approx(run.evaluate("valid")["error"]), "all there are"
    assert found.beamed.metric.value == pytest.approx(run.evaluate("valid", beam=5)["error"])
    assert found.examples == found.judged.examples == sum(len(batch.targets) for batch in run.task.valid(7))
    assert found.perfect == 0
    assert found.judged.metric == found.greedy.value
    for way in (found.beamed, found.mbr, found.best):
        assert way.gain.value == pytest.approx(found.greedy.value - way.metric.value)
        assert way.gain.low <= way.gain.value <= way.gain.high
    assert found.best.metric.value <= found.greedy.value
    lacks = found.greedy.value
    assert found.ambiguity == pytest.approx(max(0, lacks - found.mbr.metric.value) / lacks)
    assert found.unknown == pytest.approx(found.best.metric.value / lacks)
    assert found.ambiguity + found.choice + found.unknown == pytest.approx(1)
    assert found.temperature in TRIED
    assert 0 < found.judged.following < 1
    assert found.forecast is not None
    parts = CALIBRATED.ambiguity * max(0, found.mbr.gain.value), CALIBRATED.following * found.judged.following * lacks
    assert found.forecast.gain == pytest.approx(sum(parts))
    assert "Expect about" in found.words[0]
    assert "--average" in found.words[0]
    assert asdict(found.judged)["later"] >= 0


def test_what_is_written_is_read_again(runs: Path, capsys: pytest.CaptureFixture[str]):
    assert kept(runs / "mle") is None
    assert (
        main(["headroom", str(runs / "mle"), "--samples", "4", "--examples", "32", "--json", str(runs / "found.json")])
        == 0
    )
    out = capsys.readouterr().out
    found = kept(runs / "mle")
    assert found is not None
    record = json.loads((runs / "found.json").read_text())
    assert record == json.loads((runs / "mle" / NAME).read_text())
    assert record == json.loads(found.json())
    assert set(record) == {*Headroom.__dataclass_fields__, "checksum"}
    assert record["version"] == 1
    assert "MBR of 4 samples" in out
    assert all(" ".join(told.split()) in " ".join(out.split()) for told in found.words)


def test_the_same_seed_gives_the_same_numbers(runs: Path):
    run = searnn.load(runs / "mle")
    first, second, other = (run.headroom(samples=3, examples=32, seed=seed) for seed in (1, 1, 2))
    assert first == second
    assert first != replace(other, seed=1)


def test_the_step_is_that_of_the_model(tmp_path: Path):
    run = tmp_path / "run"
    assert main([*copy_flags(run), "--algorithm", "mle", "--steps", "4", "--keep-every", "2"]) == 0
    (run / "best").rename(run / "another")
    (run / "kept" / "2").rename(run / "best")
    for which, step in (("best", 2), ("last", 4)):
        found = searnn.load(run, which).headroom(samples=2, examples=16)
        assert found.step == step
        assert f"the model of update {step}" in words.title(found)


def test_a_metric_of_which_more_is_better(runs: Path):
    found = searnn.load(runs / "pairs").headroom("test", samples=5)
    assert found.metric == "bleu"
    assert found.higher_is_better
    assert found.perfect == pytest.approx(100)
    assert found.best.gain.value == pytest.approx(found.best.metric.value - found.greedy.value)
    assert found.ambiguity + found.choice + found.unknown == pytest.approx(1)
    assert found.examples == 4
    assert "test examples" in words.title(found)


def test_only_maximum_likelihood_has_a_forecast(runs: Path):
    found = searnn.load(runs / "searnn").headroom(samples=2, examples=16)
    assert found.forecast is None
    assert "trained by searnn" in found.words[0]
    assert found.train.examples > 0


def test_a_budget_bounds_the_examples(runs: Path, monkeypatch: pytest.MonkeyPatch):
    run = searnn.load(runs / "mle")
    there = sum(len(batch.targets) for batch in run.task.valid(100))

    def counts(plan: Plan) -> list[int]:
        return [sum(len(b.targets) for b in batches) for batches in measuring._batches(run.task, plan, 4)]

    assert counts(Plan(samples=2))[0] == there <= measuring.MOST
    assert counts(Plan(samples=2, examples=16)) == [16, 16]
    monkeypatch.setattr(measuring, "FEWEST", 1)
    cells = 4  # the toy's outputs and their ends
    monkeypatch.setattr(measuring, "BUDGET", 16 * 10 * cells)
    assert counts(Plan(samples=10))[0] <= 32 < there
    assert counts(Plan(samples=10)) > counts(Plan(samples=20))
    with monkeypatch.context() as patch:
        patch.setattr(measuring, "HEAVY", 1)
        assert counts(Plan(samples=10))[0] == 16, "a large vocabulary leaves room for fewer"
    monkeypatch.setattr(measuring, "FEWEST", 20)
    assert counts(Plan(samples=20))[0] == 32


def test_what_is_chosen_comes_from_all_lengths(tmp_path: Path):
    lines = [f"{'a' * length}\t{'b' * length}\n" for length in range(1, 161)]
    for name in ("train", "valid"):
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
    task = searnn.tasks.Pairs(train=[str(tmp_path / "train.tsv")], valid=[str(tmp_path / "valid.tsv")])
    for seed in range(3):
        judged, train = measuring._batches(task, Plan(examples=64, samples=1, seed=seed), 32)
        for batches in (judged, train):
            lengths = torch.cat([(batch.targets != task.vocab.pad).sum(1) for batch in batches])
            assert lengths.min() < 60
            assert lengths.max() > 110
            assert 60 < lengths.double().mean() < 100


def test_the_report_has_a_card_of_what_was_found_alone(runs: Path, capsys: pytest.CaptureFixture[str]):
    def shown():
        assert main(["report", str(runs / "mle"), "--no-examples"]) == 0
        return data_of((runs / "mle" / "report.html").read_text())["headroom"]

    assert shown() is None
    found = searnn.load(runs / "mle").headroom(samples=2, examples=16)
    card = shown()
    assert card["words"] == list(found.words)
    assert [row["decoding"] for row in card["ways"]] == ["greedy", "beam 5", "MBR of 2 samples", "best of 2 samples"]
    assert list(card["sides"][0]) == ["", "validation", "training"]
    assert not card["stale"]
    record = json.loads((runs / "mle" / NAME).read_text())
    del record["checksum"]
    (runs / "mle" / NAME).write_text(json.dumps(record | {"step": 1}))
    assert shown()["stale"]
    assert read_run(runs / "mle").headroom == replace(found, step=1)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda text: text[:100], "is damaged"),
        (lambda text: text.replace('"seed": 0', '"seed": "0"'), "seed: "),
        (lambda text: text.replace('"split"', '"splint"'), "split: "),
        (lambda text: text.replace('"perfect": 0.0', '"perfect": NaN'), "it has NaN, which is no number"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "of another version"),
        (lambda text: "[]", "is damaged"),
    ],
)
def test_a_damaged_record_is_refused(damage, told, base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "mle", tmp_path / "run")
    searnn.load(run).headroom(samples=2, examples=16)
    path = run / NAME
    before = path.read_text()
    record = json.loads(before)
    del record["checksum"]  # so that the fields are judged
    path.write_text(damage(json.dumps(record)))
    assert path.read_text() != json.dumps(record)
    message = refused("report", "run", "--no-examples")
    assert told in message
    assert str(Path("run", NAME)) in message
    assert "run searnn headroom again" in message


def test_what_is_no_run_or_has_no_model_is_refused(base: Path, tmp_path: Path, refused: Refused):
    assert "there is no run folder none" in refused("headroom", "none")
    run = clone(base / "mle", tmp_path / "run")
    for path in (run / "best").iterdir():
        path.unlink()
    (run / "best").rmdir()
    assert "has no checkpoint 'best'" in refused("headroom", "run")


def test_data_that_are_gone_are_named(tmp_path: Path, refused: Refused):
    assert main(pairs_flags(tmp_path, tmp_path / "run")) == 0
    for name in ("valid", "train"):
        (tmp_path / f"{name}.tsv").rename(tmp_path / "hidden.tsv")
        assert f"{name}.tsv" in refused("headroom", "run", "--samples", "2")
        (tmp_path / "hidden.tsv").rename(tmp_path / f"{name}.tsv")
    assert main(["headroom", str(tmp_path / "run"), "--samples", "2"]) == 0


@pytest.mark.parametrize("flag", ["--samples", "--beam", "--examples"])
def test_a_number_that_is_none_is_refused(flag: str, base: Path, refused: Refused):
    assert f"{flag}" in refused("headroom", base / "mle", flag, "0")
    with pytest.raises(SearnnError, match="must be at least 1"):
        searnn.load(base / "mle").headroom(**{flag.removeprefix("--"): 0})
    with pytest.raises(SearnnError, match="must be valid or test"):
        searnn.load(base / "mle").headroom("train")


def test_an_ensemble_has_none(base: Path):
    with pytest.raises(SearnnError, match="an ensemble of 2 runs has no headroom"):
        searnn.load([base / "mle", base / "mle"]).headroom(samples=2)


def test_a_file_in_no_folder_is_refused_before_anything_is_measured(base: Path, refused: Refused):
    assert "--json none/found.json: it must be a file" in refused("headroom", base / "mle", "--json", "none/found.json")


def test_a_metric_of_the_users_own(tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_headroom.py").write_text(
        "def longer(output, target):\n    return abs(len(output) - len(target))\n"
    )
    own = ["--cost", "own_headroom:longer", "--algorithm", "searnn"]
    assert main([*pairs_flags(tmp_path, tmp_path / "run"), *own, "--roll-out", "learned"]) == 0
    assert "own_headroom" in refused("headroom", "run", "--samples", "2")
    found = searnn.load(tmp_path / "run", trust_code=True).headroom(samples=3)
    assert found.metric == "cost"
    assert found.perfect == 0
    assert found.best.metric.value <= found.greedy.value
