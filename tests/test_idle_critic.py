"""A critic that is trained alone to the end: told before training begins."""

import pytest

from searnn.config.files import from_flags
from searnn.config.resolving import resolve
from searnn.runs.start import idle_critic


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"critic_steps": "50", "warm_up": "50"}, True),
        ({"critic_steps": "100", "warm_up": "0"}, True),
        ({"critic_steps": "49", "warm_up": "50"}, False),
        ({"warm_up": "0"}, False),
    ],
)
def test_a_critic_that_leaves_nothing_to_the_model_is_told_of(settings: dict[str, str], told: bool) -> None:
    config = resolve(from_flags({"name": "copy", "algorithm": "actor-critic", "steps": "100", **settings}))
    lines = idle_critic(config)
    assert [line.startswith("warning: --critic-steps") for line in lines] == [True] * told


def test_others_have_none() -> None:
    assert idle_critic(resolve(from_flags({"name": "copy", "algorithm": "searnn"}))) == []
