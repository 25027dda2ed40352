"""Roll-outs on a CPU by compiled passes: token by token what the plain loop writes."""

import logging
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model, rng
from next_cases import assert_same_up_to_ties, make_rows, plainly

from searnn import engine
from searnn.engine import Engine, using
from searnn.fast.cpu import decoder as fast_cpu
from searnn.fast.host import has_numba
from searnn.interfaces import Encoded
from searnn.models.attention import AdditiveAttention
from searnn.models.encoder_decoder import EncoderDecoder
from searnn.policies.learned import finish_greedily
from searnn.samplers import AllTokens
from searnn.searching import branch
from searnn.tree import take_rows
from searnn.types import Rows, Vocabulary

pytest.importorskip("numba")
cpu_blocks = pytest.importorskip("searnn.fast.cpu.blocks")

VOCABULARIES = {"known": KNOWN, "free": FREE, "inside": INSIDE}
ATTENTIONS = ("none", "additive", "aligned")
ROUNDING = 1e-4  # of scores around 10


@pytest.fixture(autouse=True)
def _however_small(monkeypatch):
    monkeypatch.setattr(fast_cpu, "LEAST_WORK", 0)


def quickly(case):
    with torch.no_grad():
        return fast_cpu.finish_rows(*case)


def expected_of(case):
    with using(Engine("plain")):
        return plainly(*case)


def assert_same(case):
    model, memory, _, rows = case
    expected, found = expected_of(case), quickly(case)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.data_ptr() != rows.outputs.data_ptr()
    different = assert_same_up_to_ties(model, memory, expected, found, ROUNDING)
    assert (expected != rows.outputs).any()
    return different


@pytest.mark.parametrize("cells", [None, -1], ids=["roll-out", "roll-in"])
@pytest.mark.parametrize("vocab", VOCABULARIES)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_equal_to_the_plain_loop(attention, vocab, cells):
    assert assert_same(make_rows(VOCABULARIES[vocab], cells=cells, attention=attention, count=30)) == 0


@pytest.mark.parametrize("width", [1, 16, 33, 100])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_widths(attention, width):
    spread = 4.0 if width < 50 else 2.0  # the larger ones would saturate
    case = make_rows(FREE, attention=attention, width=width, spread=spread, bidirectional=width > 50, count=20)
    assert assert_same(case) == 0


@pytest.mark.parametrize("size", [43, 1030, 5000])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_vocabularies_with_and_without_tables(attention, size):
    vocab = Vocabulary(size, 3, size, 1)
    model, memory, state, rows = case = make_rows(vocab, attention=attention, width=24, spread=2.0, count=40)
    assert (memory.table is None) == (size > 4096)
    assert assert_same(case) == 0
    assert assert_same((model, memory._replace(table=None), state, rows)) == 0
    assert assert_same((model, memory, state._replace(gates=()), rows)) == 0  # U h is not known


@pytest.mark.parametrize("screened", [False, True])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_large_vocabularies_by_full_scores_and_by_short_ones(monkeypatch, attention, screened):
    monkeypatch.setattr(cpu_blocks, "MANY_CHOICES", 1 if screened else 1 << 40)
    monkeypatch.setattr(cpu_blocks, "has_fast_integers", lambda: True)
    made = []
    shorten = cpu_blocks.shorten
    monkeypatch.setattr(cpu_blocks, "shorten", lambda *given: made.append(given) or shorten(*given))
    case = make_rows(Vocabulary(6000, 3, 4, 1), attention=attention, width=24, spread=2.0, count=40)
    assert assert_same(case) == 0
    assert len(made) == screened


@pytest.mark.parametrize("seats", [1, 3, 16])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_rows_wait_for_a_seat(monkeypatch, attention, seats):
    monkeypatch.setattr(cpu_blocks, "SEATS", seats)
    assert assert_same(make_rows(FREE, attention=attention, count=25, train=20, spread=1.0, width=12)) == 0


@pytest.mark.parametrize(
    "settings", [{}, {"attention": "additive"}, {"attention": "additive", "encoder": "convolutional"}], ids=str
)
def test_a_trained_model(settings):
    case = make_rows(FREE, **settings, train=60, width=12, spread=1.0)
    assert assert_same(case) == 0
    assert (expected_of(case) == FREE.eos).any()


def test_a_difference_is_seen():
    model, memory, _, rows = case = make_rows(FREE, width=12)
    expected = expected_of(case)
    found = expected.clone()
    place = tuple((expected != rows.outputs).nonzero()[0])
    found[place] = FREE.size - 1 - found[place]
    with pytest.raises(AssertionError, match="gap"):
        assert_same_up_to_ties(model, memory, expected, found, ROUNDING)


@pytest.mark.parametrize("attention", ATTENTIONS)
@pytest.mark.parametrize("size", [5, 40, 2000])
def test_the_first_of_equal_scores_wins(attention, size):
    case = make_rows(Vocabulary(size, size, size + 1, 0), attention=attention, width=8)
    with torch.no_grad():
        case[0].project.weight[1:] = 0  # tokens that always have equal scores
        case[0].project.bias[1:] = 0
        case[0].project.bias[0] = -100
    found = quickly(case)
    assert torch.equal(found, expected_of(case))
    assert found[found != case[3].outputs].unique().tolist() == [1]


def test_rows_without_room_stay_as_they_are():
    model, memory, state, rows = make_rows(FREE, attention="additive", count=20)
    ended = rows.outputs.clone()
    ended[:, ::2].scatter_(2, rows.cells[:, ::2, None], FREE.eos)
    full = torch.where(torch.arange(20) % 3 == 0, rows.cells + 1 - torch.arange(20) % 2, rows.limits)
    case = (model, memory, state, Rows(ended, rows.cells, full))
    found = quickly(case)
    assert torch.equal(found, expected_of(case))
    assert torch.equal(found[:, ::2], ended[:, ::2])
    assert torch.equal(found[:, ::3], ended[:, ::3])
    assert not torch.equal(found, ended)
    none = Rows(ended, rows.cells, rows.cells + 1)
    assert torch.equal(quickly((model, memory, state, none)), ended)


def test_a_limit_beyond_the_last_cell_ends_there():
    model, memory, state, rows = make_rows(KNOWN)
    long = Rows(rows.outputs, rows.cells, torch.full_like(rows.limits, 99))
    least = Rows(rows.outputs, rows.cells, torch.full_like(rows.limits, rows.outputs.shape[-1]))
    assert torch.equal(quickly((model, memory, state, long)), expected_of((model, memory, state, least)))


def test_the_order_of_rows_changes_nothing():
    model, memory, state, rows = make_rows(FREE, attention="aligned", count=30)
    order = torch.randperm(30, generator=rng())
    turned = take_rows((state, rows), order.expand(len(rows.cells), -1))
    found = quickly((model, memory, *turned))
    assert torch.equal(found, quickly((model, memory, state, rows))[:, order])
    assert torch.equal(found, expected_of((model, memory, *turned)))


def test_attention_far_out():
    model, memory, state, rows = make_rows(FREE, attention="additive", width=12, spread=2.0)
    with torch.no_grad():
        model.attend.query.weight.mul_(5)
    for largest in (18.0, 60.0):
        scaled = memory._replace(keys=memory.keys * (largest / memory.keys.abs().max()))
        assert torch.equal(quickly((model, scaled, state, rows)), expected_of((model, scaled, state, rows)))


def test_an_empty_source_adds_nothing():
    model, memory, state, rows = make_rows(FREE, attention="additive", width=12)
    memory = memory._replace(mask=torch.zeros_like(memory.mask), features=torch.zeros_like(memory.features))
    assert torch.equal(quickly((model, memory, state, rows)), expected_of((model, memory, state, rows)))


@pytest.mark.parametrize("size", [40, 5000])
def test_broken_weights_stay_inside_the_vocabulary(size):
    case = make_rows(Vocabulary(size, size, size + 1, 0), attention="additive", width=8, count=300)
    with torch.no_grad():
        case[0].project.weight.fill_(torch.nan)
        case[0].layers[0].weight_hh_l0.fill_(torch.inf)
    found = quickly(case)
    assert found.min() >= 0
    assert found.max() <= size


@pytest.mark.parametrize("needed", [False, True])
@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize("vocab", VOCABULARIES)
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_branches_are_finished_as_the_search_does(attention, vocab, steps, needed):
    vocab = VOCABULARIES[vocab]
    model = make_model(vocab, attention=attention).float()
    batch = make_batch(vocab, (5, 3, 1), room=2)
    prefix = batch.targets
    cells = torch.arange(prefix.shape[1]).repeat(3, 1)
    chosen = torch.rand(3, prefix.shape[1], len(vocab.choosable), generator=rng()) < 0.5 if needed else None

    with torch.no_grad():
        memory = model.encode(batch.inputs)
        scores, trail = model.trace(memory, prefix)
        branches = branch(prefix, cells, scores, batch, AllTokens(), rng())
        encoded = Encoded(model, memory, trail)
        with using(Engine("plain")):
            expected = finish_greedily(encoded, branches, batch, needed=chosen, steps=steps)
        found = fast_cpu.finish_greedily(encoded, branches, batch, needed=chosen, steps=steps)
    wanted = branches.valid if chosen is None else branches.valid & chosen
    assert torch.equal(found[wanted], expected[wanted])
    none = replace(branches, valid=torch.zeros_like(branches.valid))
    with torch.no_grad():
        opened = fast_cpu.finish_greedily(encoded, none, batch)
    assert torch.equal(found[~wanted], opened[~wanted])
    assert not torch.equal(found, opened)


@pytest.mark.parametrize("size", [40, 5000])
def test_threads_change_nothing(monkeypatch, size):
    monkeypatch.setattr(cpu_blocks, "LEAST", 8)
    used = []
    finish = cpu_blocks.finish
    monkeypatch.setattr(cpu_blocks, "finish", lambda *given: used.append(len(given[2])) or finish(*given))
    case = make_rows(Vocabulary(size, size, size + 1, 0), attention="additive", width=24, spread=2.0, count=40)
    threads = torch.get_num_threads()
    found = []
    try:
        for number in (1, 2, 3, 3):
            torch.set_num_threads(number)
            used.clear()
            found.append(quickly(case))
            assert len(used) == number
            assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(other, found[0]) for other in found[1:])
    assert assert_same(case) == 0


def test_an_error_in_a_thread_is_raised_and_threads_are_given_back(monkeypatch):
    monkeypatch.setattr(cpu_blocks, "LEAST", 8)
    threads = torch.get_num_threads()

    def fail(*given):
        raise MemoryError("not enough")

    monkeypatch.setattr(cpu_blocks, "finish", fail)
    try:
        torch.set_num_threads(2)
        with pytest.raises(MemoryError, match="not enough"):
            quickly(make_rows(FREE, count=40))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "settings", [{"cell": "lstm"}, {"layers": 2}, {"dropout": 0.5}], ids=["lstm", "layers", "dropout"]
)
def test_other_models_are_left_to_the_plain_code(settings):
    model, memory, state, rows = make_rows(FREE, **settings)
    model.train()
    assert quickly((model, memory, state, rows)) is None
    if "dropout" in settings:
        model.eval()
        assert quickly((model, memory, state, rows)) is not None


def test_other_circumstances_are_left_to_the_plain_code():
    model, memory, state, rows = case = make_rows(FREE)
    assert quickly(case) is not None
    assert fast_cpu.finish_rows(*case) is None  # with a gradient
    for kind in ("plain", "triton"):
        with using(Engine(kind)):
            assert quickly(case) is None
    with torch.autocast("cpu"):
        assert quickly(case) is None

    class Own(EncoderDecoder):
        def step(self, memory, state, tokens):
            return super().step(memory, state, tokens)

    model.__class__ = Own
    assert quickly(case) is None
    model.__class__ = EncoderDecoder
    assert quickly((model.double(), memory, state, rows)) is None


def test_little_work_is_left_to_the_plain_code(monkeypatch):
    case = make_rows(FREE, width=6)
    work = case[3].outputs.numel() * 3 * 6 * 6
    for least, taken in ((work, True), (work + 1, False)):
        monkeypatch.setattr(fast_cpu, "LEAST_WORK", least)
        assert (quickly(case) is not None) == taken


@pytest.mark.parametrize("missing", ["numba", "searnn.fast.cpu.rows"])
def test_without_numba_the_plain_code_runs_and_says_so(monkeypatch, caplog, missing):
    case = make_rows(FREE)
    has_numba.cache_clear()
    engine.announce.cache_clear()
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delattr("searnn.fast.cpu.rows", raising=False)
    try:
        with caplog.at_level(logging.INFO, "searnn"):
            assert quickly(case) is None
        assert "for want of Numba" in caplog.text
        assert "pip install 'searnn[cpu]'" in caplog.text
    finally:
        has_numba.cache_clear()


def test_the_path_is_told(caplog):
    engine.announce.cache_clear()
    with caplog.at_level(logging.INFO, "searnn"):
        quickly(make_rows(FREE))
    assert "compiled passes" in caplog.text


def test_importing_the_package_does_not_import_numba():
    code = "import sys, searnn, searnn.policies, searnn.fast.cpu.decoder; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_where_no_cache_can_be_written_functions_are_compiled_all_the_same(monkeypatch):
    from numba.core import caching

    from searnn.fast.cpu.rows import compiled

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    twice = compiled("int64(int64)")(lambda x: 2 * x)
    assert twice(21) == 42
    assert not twice.stats.cache_path


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_additive_attention_without_a_gradient_is_that_with_one(dtype: torch.dtype):
    rng = torch.Generator().manual_seed(0)
    module = AdditiveAttention(6, 5, 7).to(dtype)
    queries, features = (4 * torch.randn(3, n, 6 - n // 4, generator=rng).to(dtype) for n in (2, 4))
    keys, mask = module.keys(features), torch.rand(3, 4, generator=rng) < 0.7
    with_gradient = module.weights(queries, keys, mask)
    with torch.no_grad():
        without = module.weights(queries, keys, mask)
        with engine.using(engine.Engine("plain")):
            assert torch.equal(module.weights(queries, keys, mask), with_gradient)
    torch.testing.assert_close(without, with_gradient, atol=2e-2 if dtype == torch.bfloat16 else 1e-6, rtol=1e-5)
    if dtype == torch.float32:
        assert not torch.equal(without, with_gradient)  # so it did run
