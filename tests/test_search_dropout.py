"""Dropout in the search: on in the roll-in and in the states that are branched from, off in the roll-outs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from cases import FREE, KNOWN, make_batch, make_model, rng

from searnn import Searnn, search
from searnn.costs import EditDistance
from searnn.losses import LogLoss
from searnn.models import EncoderDecoder
from searnn.models.transformer import Transformer
from searnn.policies import Learned
from searnn.searching import Reading
from searnn.sequences import forbid
from searnn.types import SearnnError

MODELS: dict[str, dict[str, Any]] = {
    "gru": {"attention": "additive", "bidirectional": True}, "transformer": {"model": Transformer, "heads": 2}
}  # fmt: skip
models = pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)


@dataclass(frozen=True)
class Watched:
    """A learned policy that keeps what it is given and whether dropout was on."""

    seen: list[Any] = field(default_factory=list)

    def roll_in(self, encoded: Any, batch: Any, rng: torch.Generator) -> torch.Tensor:
        self.seen.append(encoded.model.training)
        return Learned().roll_in(encoded, batch, rng)

    def roll_out(self, encoded: Any, branches: Any, batch: Any, rng: torch.Generator) -> torch.Tensor:
        self.seen.append((encoded, branches, encoded.model.training))
        return Learned().roll_out(encoded, branches, batch, rng)


def found_in(model: Any, batch: Any, roll_in: Any, roll_out: Any) -> Any:
    torch.manual_seed(7)
    reading = Reading(model, batch, dropout=True)
    parts = {"roll_in": roll_in, "roll_out": roll_out, "cost": EditDistance()}
    return search(model, batch, **parts, rng=rng(1), reading=reading), reading


@models
@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_roll_ins_have_it_and_roll_outs_go_on_from_there_without(settings: dict[str, Any], vocab: Any) -> None:
    model, batch = make_model(vocab, seed=2, dropout=0.4, spread=2.0, **settings).train(), make_batch(vocab, room=1)
    roll_in, roll_out = Watched(), Watched()
    found, reading = found_in(model, batch, roll_in, roll_out)
    assert model.training
    assert roll_in.seen == [True]
    ((encoded, branches, on),) = roll_out.seen
    assert on is False
    assert reading.encode().memory is encoded.memory, "the encoding is made once"
    model.eval()
    for example, cell, candidate in branches.valid.nonzero().tolist():  # step by step, each branch alone
        at = branches.cells[:, cell : cell + 1]
        memory, state = model.fork(encoded.memory, encoded.trail, at)
        written = [*found.prefix[example, : int(at[example])].tolist(), int(branches.tokens[example, cell, candidate])]
        limit, token = int(batch.lengths[example]), branches.tokens[:, cell, candidate : candidate + 1]
        while len(written) < limit and written[-1] != model.vocab.eos:
            scores, state = model.step(memory, state, token)
            token = forbid(scores, model.vocab).argmax(-1)
            written.append(int(token[example]))
        output = found.outputs[example, cell, candidate]
        assert output[: len(written)].tolist() == written
    without = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), rng=rng(1))
    assert not torch.equal(found.prefix, without.prefix)


@models
def test_one_pass_serves_search_and_learning(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = make_model(FREE, seed=2, dropout=0.4, **settings).train(), make_batch(FREE, room=1)
    calls: list[str] = []
    for name in ("encode", "trace"):
        kept = getattr(model, name)
        monkeypatch.setattr(model, name, lambda *given, kept=kept, name=name: calls.append(name) or kept(*given))
    parts: dict[str, Any] = {"roll_in": Learned(), "roll_out": Learned(), "cost": EditDistance(), "loss": LogLoss()}
    torch.manual_seed(3)
    update = Searnn(**parts, search_dropout=True)(model, batch, rng(1))
    assert calls == ["encode", "trace"]
    update.loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    torch.manual_seed(3)
    assert Searnn(**parts, search_dropout=True)(model, batch, rng(1)).loss == update.loss
    torch.manual_seed(4)
    assert Searnn(**parts, search_dropout=True)(model, batch, rng(1)).loss != update.loss
    calls.clear()
    Searnn(**parts)(model, batch, rng(1))
    assert calls == ["encode", "trace"] * 2


def test_it_changes_nothing_where_there_is_no_dropout_and_is_refused_with_fixed_states() -> None:
    model, batch = make_model(FREE, seed=2).train(), make_batch(FREE, room=1)
    assert isinstance(model, EncoderDecoder)
    parts: dict[str, Any] = {"roll_in": Learned(), "roll_out": Learned(), "cost": EditDistance(), "loss": LogLoss()}
    losses = [Searnn(**parts, search_dropout=on)(model, batch, rng(1)).loss for on in (False, True)]
    assert losses[0] == losses[1]
    with pytest.raises(SearnnError, match="search_dropout is for the classifier network"):
        Searnn(**parts, search_dropout=True, classifier="cell")
