"""Rows finished token by token by kernels, against the plain loop over time."""

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, rng
from next_cases import assert_same_up_to_ties, make_rows, plainly

from searnn.engine import Engine, using
from searnn.fast.gpu import next_tokens as fast_next
from searnn.fast.gpu.next_tokens import finish_rows
from searnn.fast.host import interpreted
from searnn.models import encoder_decoder
from searnn.types import Vocabulary

pytest.importorskip("triton")

from searnn.fast.gpu import alive

pytestmark = pytest.mark.skipif(not interpreted(), reason="on the CPU kernels need TRITON_INTERPRET=1")
LARGE = Vocabulary(size=150, pad=150, bos=151, eos=7)
SETTINGS = {
    "none": (INSIDE, {}),
    "additive": (INSIDE, {"attention": "additive", "bidirectional": True, "embedding": 3}),
    "aligned": (INSIDE, {"attention": "aligned"}),
    "known-length": (KNOWN, {"attention": "aligned"}),
    "trained": (FREE, {"attention": "additive", "train": 30}),
    "large": (LARGE, {"attention": "additive", "width": 20}),
    "roll-in": (LARGE, {"attention": "additive", "cells": -1, "lengths": (3, 2)}),
}


def finish(case, precision="float32", **settings):
    with torch.no_grad(), using(Engine("triton", precision)):
        return finish_rows(*case, **settings)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_same_as_the_plain_loop(setting):
    vocab, settings = SETTINGS[setting]
    case = make_rows(vocab, **settings)
    before = [part.clone() for part in (case[2].hidden[0], *case[3])]
    expected, found = plainly(*case), finish(case)
    assert not torch.equal(expected, case[3].outputs)
    assert assert_same_up_to_ties(*case[:2], expected, found, 1e-4) < 0.1
    assert all(map(torch.equal, before, (case[2].hidden[0], *case[3])))  # what was given is left as it was


def test_every_way_to_the_gates_of_a_token_gives_the_same(monkeypatch):
    """By the memory's table; without it by a table for this call, or for few rows by the tokens that are read."""
    found = []
    for most, few in ((4096, 16), (0, 16), (0, 0)):
        monkeypatch.setattr(encoder_decoder, "MOST_IN_TABLE", most)
        monkeypatch.setattr(fast_next, "FEW_READ", few)
        case = make_rows(LARGE, count=3, lengths=(4, 2, 1))
        assert (case[1].table is None) == (most == 0)
        found.append((plainly(*case), finish(case)))
    for expected, got in found:
        assert torch.equal(expected, got)


def test_rows_without_room_stay_as_they_are():
    model, memory, state, rows = make_rows(FREE, lengths=(4, 2))
    rows = rows._replace(limits=rows.cells + 1)
    assert torch.equal(finish((model, memory, state, rows)), rows.outputs)


def test_so_many_steps_and_no_more():
    case = make_rows(KNOWN, lengths=(6, 5))
    found = finish(case, steps=2)
    added = (found != case[3].outputs).sum(-1)
    room = (case[3].limits - case[3].cells - 1).clamp(min=0)
    assert torch.equal(added, room.clamp(max=2))
    assert (room > 2).any()


def test_bf16_changes_only_near_ties():
    case = make_rows(LARGE, width=20, attention="additive")
    share = assert_same_up_to_ties(*case[:2], plainly(*case), finish(case, "bf16"), 0.5)
    assert share < 0.5


def test_none_where_it_does_not_apply():
    def result(kind="triton", gradient=False, **settings):
        case = make_rows(FREE, lengths=(2, 1), **settings)
        with torch.set_grad_enabled(gradient), using(Engine(kind)):
            return finish_rows(*case)

    assert result() is not None
    assert result(cell="lstm") is None
    assert result(layers=2) is None
    assert result("plain") is None
    assert result("auto") is None  # on a CPU
    assert result(gradient=True) is None
    model, *rest = make_rows(FREE, lengths=(2, 1), dropout=0.5)
    assert finish((model.train(), *rest)) is None
    model, *rest = make_rows(FREE, lengths=(2, 1))
    assert finish((model.double(), *rest)) is None


def test_lists_of_alive_rows(monkeypatch):
    """Shortened in blocks of few rows, as if an example had more of them than a block."""
    monkeypatch.setattr(alive, "LANES", 16)
    examples, count, length = 3, 50, 4
    made = rng(4)
    tokens = torch.randint(5, (examples, count), generator=made, dtype=torch.int32)
    room = torch.randint(-1, 4, (examples, count), generator=made, dtype=torch.int32)
    outputs = torch.zeros(examples, count, length, dtype=torch.long)
    keys = alive.no_keys(examples * count, torch.device("cpu"))
    slots = torch.zeros(examples, count, dtype=torch.int32)
    writing = alive.Writing(slots, room, tokens, outputs, keys, eos=2)
    lists = [alive.no_rows(examples, count, torch.device("cpu")) for _ in range(2)]
    alive.shorten(None, lists[0], writing, -1)
    standing = (room > 0) & (tokens != 2)
    for step in range(3):
        now, after = lists[step % 2], lists[(step + 1) % 2]
        assert now.counts.tolist() == standing.sum(1).tolist()
        places = []
        for example in range(examples):
            rows = now.order[example, : now.counts[example]].tolist()
            assert rows == [example * count + row for row in standing[example].nonzero().flatten().tolist()]
            places += rows
        chosen = torch.randint(5, (len(places),), generator=made)
        keys[: len(places)] = (torch.arange(len(places)) - 9) << 32 | (0x7FFFFFFF - chosen)  # any score, this token
        alive.shorten(now, after, writing, step)
        assert (keys == keys[-1]).all()  # made ready for the next time
        at = torch.tensor(places, dtype=torch.long)
        assert torch.equal(outputs.flatten(0, 1)[at, step], chosen)
        ended = torch.zeros(examples * count, dtype=torch.bool)
        ended[at[chosen == 2]] = True
        standing &= (room > step + 1) & ~ended.view(examples, count)
    assert lists[1].counts.tolist() == [0, 0, 0]
