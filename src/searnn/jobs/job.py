"""One run among many: its folder, the commands that bring it to its end, and how far it is."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from searnn import sealed
from searnn.config import Config, files, trust
from searnn.files import remove, replace_file
from searnn.reports.comparison import by_way, way_of
from searnn.reports.paired import PREDICTIONS
from searnn.runs.folders import SETTINGS
from searnn.sealed import Checked, Whole
from searnn.training import checkpoints
from searnn.training.memory import SHORTAGE
from searnn.types import SearnnError

TESTED = "test.json"  # the metrics on the test data, in the run's folder


class Tested(Checked):
    """What `test.json` holds."""

    model_config = ConfigDict(extra="ignore")  # what else the evaluation printed
    best_step: Whole | None = None
    members: dict[str, Whole] = Field(default_factory=dict)  # of an ensemble: each one's best step
    metrics: dict[str, float]
    beam: int = 1
    length_penalty: float = 1.0
    predictions: str | None = None  # the SHA-256 of what it wrote
    mbr: int = 0


@dataclass(frozen=True)
class Job:
    """One run: what it is called, its complete settings, its folder, and how it is tested besides greedily."""

    label: str
    seed: int
    config: Config
    folder: Path
    beam: int = 1
    length_penalty: float = 1.0  # of the beam
    mbr: int = 0  # samples of minimum-Bayes-risk decoding

    @property
    def ways(self) -> list[str]:
        """The ways of decoding that test it besides greedily, by name."""
        return [f"beam {self.beam}"] * (self.beam > 1) + [f"MBR {self.mbr}"] * (self.mbr > 0)

    @property
    def log(self) -> Path:
        """What its process says."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @property
    def printed(self) -> Path:
        """What the measuring prints, until it is taken note of."""
        return self.folder / "printed"

    @property
    def failed(self) -> Path:
        """Why its last process failed, where it did."""
        return self.folder.with_name(f"{self.folder.name}.failed")

    def failure(self) -> str | None:
        """Why it came to nothing; None where it did not, as far as is known."""
        if self.tested() is not None:  # another process has brought it to its end
            return None
        try:
            return self.failed.read_text()
        except OSError:
            return None

    def counters(self) -> dict[str, Any] | None:
        """Where the run stood when it was last saved; None where it never was."""
        try:
            return checkpoints.read_meta(self.folder / "last").get("counters")
        except SearnnError:  # a damaged one is told of by the training
            return None

    def share(self) -> float:
        """How much of its budget the run has spent, as far as it has been saved."""
        limits, counters = self.config.optimisation, self.counters()
        if counters is None:
            return 0.0
        shares = [0.0]
        shares += [counters["step"] / limits.steps] if isinstance(limits.steps, int) else []
        shares += [counters["seconds"] / 60 / limits.minutes] if isinstance(limits.minutes, (int, float)) else []
        shares += [1.0] if isinstance(limits.patience, int) and counters["stale"] >= limits.patience else []
        return max(shares)

    def is_trained(self) -> bool:
        """Whether it has spent its budget, and nothing cut off its last evaluation, which then comes first."""
        return self.share() >= 1 and not (self.counters() or {}).get("due")

    def tested(self) -> dict[str, float] | None:
        """The metrics of the best model on the test data; None where they were not measured, or of an earlier model.

        What was measured in a way that is not asked for is left out; a beam of another length penalty is no such way.
        None, too, where the predictions beside them are not those that were written: what is damaged is measured again.
        """
        try:
            found = sealed.read(self.folder / TESTED, Tested)
            if self._digest() not in (None, found.predictions):
                return None
        except (OSError, SearnnError):
            return None
        fits = self.is_trained() and self.measured().items() <= found.model_dump().items()
        beam = self.beam == 1 or (self.beam, self.length_penalty) == (found.beam, found.length_penalty)
        if not fits or not beam or self.mbr not in (0, found.mbr):
            return None
        return {name: value for name, value in found.metrics.items() if way_of(name) in ("", *self.ways)}

    def measured(self) -> dict[str, Any]:
        """Which model is measured: `test.json` says the same where its numbers are still good."""
        return {"best_step": (self.counters() or {}).get("best_step")}

    def _digest(self) -> str | None:
        """That of the predictions; None where there are none."""
        try:
            written = sealed.read_bytes(self.folder / PREDICTIONS, sys.maxsize)
        except FileNotFoundError:
            return None
        return hashlib.sha256(written).hexdigest()

    def commands(self) -> list[list[str]]:
        """What is to be done: train or go on, and measure; or only that."""
        measure = self._measure(self.folder)
        return [measure] if self.is_trained() else [self._train(), measure]

    def _measure(self, *runs: Path) -> list[str]:
        widths = "1" if self.beam == 1 else f"1,{self.beam}"
        measure = ["eval", *map(str, runs), "--json", "--device", str(self.config.run.device), "--beam", widths]
        measure += ["--length-penalty", str(self.length_penalty)] if self.length_penalty != 1 else []
        measure += ["--mbr", str(self.mbr)] if self.mbr else []
        return [*measure, "--predictions", str(self.folder / PREDICTIONS), *self._trust()]

    def _train(self) -> list[str]:
        task, limits = str(self.config.task.name), self.config.optimisation
        if not (self.folder / SETTINGS).is_file():
            files.write(self.config, self.settings)
            return ["train", task, "--config", str(self.settings), "--run", str(self.folder)]
        budget = {"--steps": limits.steps, "--minutes": limits.minutes, "--patience": limits.patience}
        given = [word for flag, value in budget.items() for word in (flag, str(value))]
        return ["train", task, "--run", str(self.folder), "--resume", *given, *self._trust()]

    def _trust(self) -> list[str]:
        """The parts that the folder names are those of the command that started the job, as was checked before."""
        return ["--trust-code"] if trust.parts(self.config.flat()) else []

    @property
    def settings(self) -> Path:
        """The file of settings that the run is made from."""
        return self.folder.with_name(f"{self.folder.name}.toml")

    def note(self) -> None:
        """Keep what the evaluation printed: a line for greedy decoding and one for each of the other ways."""
        greedy, *others = map(json.loads, self.printed.read_text().splitlines())
        for way, found in zip(self.ways, others, strict=True):
            greedy["metrics"] |= {by_way(name, way): value for name, value in found["metrics"].items()}
        content = {**self.measured(), **greedy, "beam": self.beam, "predictions": self._digest()}
        content |= {"length_penalty": self.length_penalty} if self.length_penalty != 1 else {}
        content |= {"mbr": self.mbr} if self.mbr else {}
        replace_file(self.folder / TESTED, sealed.text_of(content).encode())
        remove(self.printed)
        remove(self.failed)  # of another process that found this one at work

    def told(self) -> str:
        """What it is, and what it took."""
        counters = self.counters() or {}
        return f"{self.label}, seed {self.seed}: {counters.get('step')} updates, {counters.get('seconds', 0):.0f} s"

    def complaint(self) -> str:
        """The last thing that its process said."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1].removeprefix("searnn: error: ") if lines else "it said nothing"

    def lacks_memory(self) -> bool:
        """Whether that is what its process said."""
        return self.complaint().startswith(SHORTAGE)
