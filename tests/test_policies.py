"""Policies as the search takes them: refused where they are none, and those of the version before."""

import pytest
import torch
from cases import FREE, make_batch, make_model, rng

import searnn
from searnn import SearnnError, search
from searnn.algorithms import Ocd
from searnn.config.registry import check_fits
from searnn.costs import EditDistance
from searnn.policies import Focused, Learned, Reference
from searnn.searching import as_roll_in, as_roll_out


class OlderPolicy:
    """As policies were written before `Encoded`."""

    def roll_in(self, model, memory, batch, rng):
        return Learned().roll_in(searnn.Encoded(model, memory), batch, rng)

    def roll_out(self, model, memory, trail, branches, batch, rng):
        return Learned().roll_out(searnn.Encoded(model, memory, trail), branches, batch, rng)


def test_a_policy_of_the_version_before_works_and_is_told_of():
    model, batch = make_model(FREE, attention="additive"), make_batch(FREE, (4, 2, 3), room=1)
    expected = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), rng=rng())
    with pytest.warns(DeprecationWarning, match=r"OlderPolicy.roll_\w+ takes \(model, memory, ...\)"):
        found = search(model, batch, roll_in=OlderPolicy(), roll_out=OlderPolicy(), cost=EditDistance(), rng=rng())
    assert torch.equal(found.outputs, expected.outputs)
    assert torch.equal(found.costs, expected.costs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_policy_of_the_version_before_is_taken_wherever_policies_are():
    model, batch = make_model(FREE, attention="additive"), make_batch(FREE, (4, 2, 3), room=1)
    for kind in (OlderPolicy, type("Another", (OlderPolicy,), {})):
        expected = Ocd(roll_in=Learned())(model, batch, rng()).loss
        assert torch.equal(Ocd(roll_in=kind())(model, batch, rng()).loss, expected)
        check_fits("roll_in", "mine:Older", kind())
        check_fits("roll_out", "mine:Older", kind())


def test_what_is_on_the_wrong_side_is_refused():
    with pytest.raises(SearnnError, match="Focused does not roll in: the roll-in must write a prefix"):
        as_roll_in(Focused())
    with pytest.raises(SearnnError, match="dict does not roll out: the roll-out must finish branches"):
        as_roll_out({})
    assert as_roll_in(Reference()) == as_roll_out(Reference()) == Reference()


def test_older_names_are_deprecated():
    with pytest.warns(DeprecationWarning, match="searnn.Policy is deprecated: take RollIn or RollOut"):
        assert isinstance(Learned(), searnn.Policy)
    with pytest.warns(DeprecationWarning, match="it is in searnn.training"):
        from searnn.algorithms import diagnose
    assert diagnose is searnn.training.diagnose
    with pytest.warns(DeprecationWarning, match=r"searnn.tasks.batching is deprecated: it is searnn.data.batching"):
        from searnn.tasks.batching import make_examples
    assert make_examples is searnn.data.batching.make_examples
