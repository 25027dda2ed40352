"""What `searnn headroom` finds, as it is kept in a run's folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from searnn import sealed
from searnn.files import write
from searnn.reports.bootstrap import Estimate
from searnn.types import SearnnError

NAME = "headroom.json"
VERSION = 1


@dataclass(frozen=True)
class Way:
    """A way of choosing outputs: the metric, and what it is better by than greedy decoding, pair by pair."""

    metric: Estimate
    gain: Estimate


@dataclass(frozen=True)
class Prefixes:
    """What the model does on one split, along true prefixes and its own.

    Shares are of cells; `visible` is that of the cells on own prefixes at which a search has something to learn.
    `first` and `later` are mistakes until the first one of an output and after it. Losses are of the right tokens.
    Of the mistakes on own prefixes, `following` is the share that comes after another one in the same output, and
    `exposure` the share that is not made on true prefixes.
    """

    examples: int
    metric: float
    mistakes_on_true: float
    visible: float
    first: float
    later: float
    following: float
    loss_on_true: float
    loss_on_own: float
    entropy: float
    exposure: float


@dataclass(frozen=True)
class Forecast:
    """What SEARNN is expected to gain over maximum likelihood by the metric, decoded greedily."""

    gain: float
    low: float
    high: float


@dataclass(frozen=True)
class Headroom:
    """How much better a run could be by its metric, and by what."""

    __pydantic_config__ = sealed.Checked.model_config

    run: str
    task: str
    algorithm: str
    metric: str
    higher_is_better: bool
    step: int  # of the model
    split: str
    examples: int
    samples: int
    temperature: float  # at which they are drawn
    beam: int
    seed: int
    perfect: float  # the metric of the truth itself
    greedy: Estimate
    beamed: Way
    mbr: Way
    best: Way
    ambiguity: float  # of what greedy decoding lacks: what MBR gains,
    choice: float  # what the best sample has and MBR does not find,
    unknown: float  # and what no sample has
    spared: float  # of the cost that the model itself expects of greedy decoding: what it expects MBR to spare
    judged: Prefixes  # on the split
    train: Prefixes
    forecast: Forecast | None
    words: tuple[str, ...]
    version: int = VERSION

    def json(self) -> str:
        """The record as other programs read it."""
        return sealed.text_of(asdict(self), indent=1, ensure_ascii=False) + "\n"


def keep(found: Headroom, path: Path) -> None:
    """Write it to a file."""
    write(path, found.json().encode())


def kept(folder: Path) -> Headroom | None:
    """What was found of the run in a folder; None where nobody asked."""
    path = folder / NAME
    try:
        found = sealed.read(path, Headroom, "remove it, or run searnn headroom again")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SearnnError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    if found.version != VERSION:
        raise SearnnError(f"{path} is of another version of searnn: run searnn headroom again")
    return found
