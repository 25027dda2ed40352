"""The floor: operations counted by torch itself, by a loop over rows, and by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from bench_cases import tiny
from counting import amounts, products, traffic
from torch.utils.flop_counter import FlopCounterMode

from searnn import Mle, search
from searnn.bench.methods import searnn
from searnn.bench.settings import make_model, random_batches
from searnn.engine import Engine, using
from searnn.policies import Focused, Learned

SETTINGS = ["ocr", "spelling", "nmt"]


def case(name, ragged=False):
    """A model and a batch; not ragged: of sources and targets of one length."""
    setting = tiny(name)
    setting = setting if ragged else replace(setting, shortest=None)
    return setting, make_model(setting), random_batches(setting, 1)[0]


def in_place(into, left, right, **_):
    """The operations of a product from the shapes of what is multiplied."""
    return 2 * left[0] * left[1] * right[1]


def counted(work):
    """The operations of all products that torch makes; its counter does not know of the one that adds in place."""
    more = {torch.ops.aten.addmm_: in_place}
    with using(Engine("plain")), FlopCounterMode(display=False, custom_mapping=more) as counter:
        work()
    return counter.get_total_flops()


def amounts_of(setting, model, batch, roll_out, count):
    algorithm = searnn(setting, "learned" if roll_out == "focused" else roll_out, count)
    if roll_out == "focused":
        algorithm = replace(algorithm, roll_out=Focused(1))
    with using(Engine("plain")):
        return amounts(algorithm, model, batch)


@pytest.mark.parametrize("name", SETTINGS)
def test_the_products_of_mle_are_those_that_torch_counts(name):
    setting, model, batch = case(name)
    asked = amounts(Mle(), model, batch)
    assert asked.row_steps == asked.cells.sum() == batch.lengths.sum()
    found = products(model, asked)
    assert found["table"] == found["roll-in"] == found["roll-out"] == 0
    width, directions = setting.width, 1 + setting.bidirectional
    recur = 2 * 3 * width * width
    table = recur * setting.vocab.embeddings  # our MLE makes the table of gates, and has no use for it
    expected = found["encode"] + found["trace"]
    assert counted(lambda: Mle()(model, batch, torch.Generator())) == expected + table

    def learn():
        Mle()(model, batch, torch.Generator()).loss.backward()

    # The encoder's first state is zero and needs no gradient.
    spared = directions * setting.batch_size * recur
    assert counted(learn) == expected + table + found["backward"] - spared


@pytest.mark.parametrize("name", SETTINGS)
def test_the_products_of_the_search_are_those_that_torch_counts(name):
    setting, model, batch = case(name)
    amounts = amounts_of(setting, model, batch, "learned", None)
    found = products(model, amounts)
    # The plain code makes the whole table, and the first product of every cell, whether rows leave from it or not.
    recur = 2 * 3 * setting.width**2
    more = setting.batch_size * setting.cells - int(amounts.forks.sum())
    expected = sum(found[phase] for phase in ("encode", "table", "trace", "roll-in", "roll-out")) + more * recur
    cost = setting.cost(setting.vocab)
    rng = torch.Generator().manual_seed(0)
    assert found["table"] == recur * setting.vocab.embeddings
    assert counted(lambda: search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=cost, rng=rng)) == expected


@pytest.mark.parametrize("name", SETTINGS)
def test_row_steps_are_those_of_a_loop_over_branches(name):
    setting, model, batch = case(name, ragged=True)
    amounts = amounts_of(setting, model, batch, "learned", None)
    with using(Engine("plain")):
        rng = torch.Generator().manual_seed(0)
        cost = setting.cost(setting.vocab)
        found = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=cost, rng=rng)
    eos, pad = setting.vocab.eos, setting.vocab.pad
    for example, room in enumerate(batch.lengths.tolist()):
        prefix = found.prefix[example].tolist()
        steps = rows = forks = 0
        for place, cell in enumerate(found.cells[example].tolist()):
            left = False
            for number, token in enumerate(found.tokens[example, place].tolist()):
                if cell >= room or token in (eos, prefix[cell]):
                    continue  # no such cell; ends at once; is the roll-in itself
                output = [other for other in found.outputs[example, place, number].tolist() if other != pad]
                steps += len(output) - cell - 1
                rows += len(output) > cell + 1
                left = left or len(output) > cell + 1
            forks += left
        assert amounts.roll_in[example] == amounts.cells[example] == room
        assert (amounts.roll_out[example], amounts.rows[example], amounts.forks[example]) == (steps, rows, forks)
    assert amounts.outputs == found.outputs.numel()
    assert amounts.row_steps == int(2 * batch.lengths.sum() + amounts.roll_out.sum())


def test_roll_outs_that_need_less_of_the_model():
    setting, model, batch = case("ocr")
    learned, mixed, focused, reference = (
        amounts_of(setting, model, batch, roll_out, None) for roll_out in ("learned", "mixed", "focused", "reference")
    )
    cells, others = setting.cells, setting.vocab.size - 1
    assert learned.roll_out.tolist() == [others * cells * (cells - 1) // 2] * setting.batch_size
    tossed = set(mixed.roll_out.tolist())  # all branches of an example, the roll-in's own too, or none
    assert tossed <= {0, setting.vocab.size * cells * (cells - 1) // 2}
    assert focused.roll_out.tolist() == [setting.vocab.size * (cells - 1)] * setting.batch_size
    assert reference.roll_out.sum() == 0
    assert products(model, reference)["roll-out"] == 0


def test_bytes_by_hand():
    setting, model, batch = case("ocr")
    amounts = amounts_of(setting, model, batch, "reference", None)
    d, v, e, f = setting.width, setting.vocab.size, setting.vocab.embeddings, setting.features
    gru = 3 * d * d + 6 * d
    embedding, dense = e * d, 3 * d * f + gru + 3 * d * d + gru + d * v + v
    tokens = setting.batch_size * setting.cells
    scores, outputs = tokens * v, tokens * v * setting.cells
    assert traffic(model, amounts) == 4 * (9 * embedding + 11 * dense) + 4 * 4 * scores + 16 * outputs
