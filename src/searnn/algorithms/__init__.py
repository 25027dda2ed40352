"""Training algorithms: each turns a batch into one loss."""

from importlib import import_module
from typing import Any
from warnings import warn

from searnn.algorithms.actor_critic import ActorCritic
from searnn.algorithms.aggrevate import Aggrevate
from searnn.algorithms.aggrevated import Aggrevated
from searnn.algorithms.bandit_lols import BanditLols
from searnn.algorithms.bso import Bso
from searnn.algorithms.dagger import Dagger
from searnn.algorithms.laso import Laso
from searnn.algorithms.lols import Lols
from searnn.algorithms.mixer import Mixer
from searnn.algorithms.mle import Mle
from searnn.algorithms.mrt import Mrt
from searnn.algorithms.ocd import Ocd
from searnn.algorithms.raml import Raml
from searnn.algorithms.reinforce import Reinforce
from searnn.algorithms.scheduled_sampling import ScheduledSampling
from searnn.algorithms.searn import Searn
from searnn.algorithms.searnn import Searnn, search
from searnn.algorithms.self_critical import SelfCritical
from searnn.algorithms.warm_up import WarmUp

__all__ = [
    "ActorCritic",
    "Aggrevate",
    "Aggrevated",
    "BanditLols",
    "Bso",
    "Dagger",
    "Laso",
    "Lols",
    "Mixer",
    "Mle",
    "Mrt",
    "Ocd",
    "Raml",
    "Reinforce",
    "ScheduledSampling",
    "Searn",
    "Searnn",
    "SelfCritical",
    "WarmUp",
    "search",
]


def __getattr__(name: str) -> Any:
    if name != "diagnose":
        raise AttributeError(f"module 'searnn.algorithms' has no attribute {name!r}")
    warn("searnn.algorithms.diagnose is deprecated: it is in searnn.training", DeprecationWarning, stacklevel=2)
    return import_module("searnn.training").diagnose
