"""Short trainings of everything end in the very weights that were recorded on this kind of machine."""

import json

import pytest
from traces import FILE, differences, machine, traces


@pytest.mark.slow
def test_nothing_trains_otherwise_than_it_did():
    recorded = json.loads(FILE.read_text()).get(machine())
    if recorded is None:
        pytest.skip(f"no traces were recorded on {machine()}")
    made = traces()
    assert made.keys() == recorded.keys()
    assert differences(made, recorded) == []
    assert not [name for name, found in made.items() if "refused" in found]


def test_a_difference_is_seen():
    assert differences({"one": {"loss": 1.0}, "two": {}}, {"one": {"loss": 1.5}, "two": {}}) == ["one"]
