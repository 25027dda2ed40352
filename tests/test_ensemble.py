"""Ensembles: the mean of probabilities against plain loops, outputs by enumeration, several runs as one."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model

import searnn
from searnn.cli import main
from searnn.decoding import decode, decode_beam
from searnn.models import Ensemble, Transformer
from searnn.models.looking import looked_at
from searnn.sequences.ends import strip
from searnn.types import SearnnError

PAIRS = [("ab", "ba"), ("abc", "cba"), ("ca", "ac"), ("bb", "bb"), ("cab", "bac"), ("a", "a")]
SIZES = {"width": 12, "batch_size": 6, "steps": 25, "eval_every": 25, "device": "cpu", "algorithm": "mle", "lr": 0.02}


def members(vocab):
    return [
        make_model(vocab, seed=1, spread=2.0, attention="additive"),
        make_model(vocab, seed=2, spread=2.0, model=Transformer, heads=2),
        make_model(vocab, seed=3, spread=2.0, cell="lstm"),
    ]


@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_probabilities_are_the_mean_of_the_members(vocab):
    several, batch = members(vocab), make_batch(vocab, room=1)
    whole = Ensemble(several)
    scores, _ = whole.trace(whole.encode(batch.inputs), batch.targets)
    expected = torch.zeros_like(scores)
    for member in several:
        own, _ = member.trace(member.encode(batch.inputs), batch.targets)
        for token in (token for token in (vocab.pad, vocab.bos) if token < vocab.size):
            own[..., token] = -torch.inf
        expected += own.exp() / own.exp().sum(-1, keepdim=True) / len(several)
    torch.testing.assert_close(scores.exp(), expected)


def test_outputs_are_the_best_of_all_there_are():
    several, batch = members(FREE), make_batch(FREE, lengths=(2, 1), room=1)
    whole = Ensemble(several)
    memory = whole.encode(batch.inputs)
    found, scores = decode_beam(whole, batch, width=5**3, length_penalty=0.0)
    for example, limit in enumerate(batch.lengths.tolist()):
        known = {}
        for row in itertools.product(range(FREE.size), repeat=limit):
            end = row.index(FREE.eos) + 1 if FREE.eos in row else limit
            tokens = torch.full_like(batch.targets, FREE.pad)
            tokens[example, :end] = torch.tensor(row[:end])
            logs = [m.trace(m.encode(batch.inputs), tokens)[0].detach().log_softmax(-1)[example] for m in several]
            means = torch.stack([log.exp() for log in logs]).mean(0).log()
            known[row[:end]] = float(sum(means[cell, token] for cell, token in enumerate(row[:end])))
        best = max(known, key=known.__getitem__)
        assert tuple(token for token in found[example, 0].tolist() if token != FREE.pad) == best
        assert float(scores[example, 0]) == pytest.approx(known[best])
    assert whole.row_bytes(memory, 4) > max(m.row_bytes(own, 4) for m, own in zip(several[:2], memory, strict=False))


def test_one_member_and_twins_are_the_member():
    one, batch = members(FREE)[0], make_batch(FREE, room=1)
    for several in ([one], [one, one]):
        assert torch.equal(decode(Ensemble(several), batch), decode(one, batch))


def test_where_an_ensemble_looks():
    several, batch = members(FREE), make_batch(FREE, room=1)
    whole = Ensemble(several)
    looks = [
        looked_at(member, member.encode(batch.inputs), batch.targets) for member in several[:2]
    ]  # the lstm does not
    found = looked_at(whole, whole.encode(batch.inputs), batch.targets)
    torch.testing.assert_close(found, (looks[0] + looks[1]) / 2)


def test_what_does_not_fit_is_refused():
    with pytest.raises(SearnnError, match="no members"):
        Ensemble([])
    with pytest.raises(SearnnError, match="member 1 has Vocabulary"):
        Ensemble([make_model(FREE), make_model(KNOWN)])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    data = {"train": PAIRS, "valid": PAIRS, "test": PAIRS}
    for seed, model in enumerate(("gru", "transformer")):
        searnn.train("pairs", run=folder / model, show=False, model=model, seed=seed, **data, **SIZES)
    other = [(text.upper(), out) for text, out in PAIRS]
    searnn.train("pairs", run=folder / "other", show=False, train=other, valid=other, **SIZES)
    return [folder / "gru", folder / "transformer", folder / "other"]


def test_several_runs_are_one(runs: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    gru, transformer, other = runs
    one = searnn.load([gru, transformer])
    models = [searnn.load(run).model for run in (gru, transformer)]
    texts = [source for source, _ in PAIRS]
    batch = one.batch([one.task.read(text) for text in texts])
    for beam in (1, 3):
        expected = [one.task.show(row) for row in strip(decode(Ensemble(models), batch, beam=beam), one.task.vocab)]
        assert one.predict(texts, beam=beam) == expected
        (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in texts))
        capsys.readouterr()
        both = ["predict", str(gru), str(transformer)]
        assert main([*both, "--input", str(tmp_path / "in.txt"), "--beam", str(beam), "--device", "cpu"]) == 0
        assert capsys.readouterr().out.splitlines() == expected
    assert main(["eval", str(gru), str(transformer), "--json", "--device", "cpu"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run"] == f"{gru} + {transformer}"
    assert told["metrics"] == one.evaluate()
    assert "2 x gru" in repr(one)
    page = tmp_path / "page.html"
    assert main(["explain", str(gru), str(transformer), "--input", "ab", "--target", "ba", "--out", str(page)]) == 0
    assert "ensemble of 2" in page.read_text()
    for words in (["predict"], ["eval"], ["explain", "--input", "ab", "--out", str(page)]):
        capsys.readouterr()
        assert main([words[0], str(gru), str(other), *words[1:]]) == 2
        error = capsys.readouterr().err
        assert f"{other} has another" in error
        assert "an ensemble is of runs on the same training data" in error
        assert len(error.splitlines()) == 1
