"""The ensemble of a method's runs as a job: nothing is trained, the mean of their probabilities is measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from searnn.files import make_folder
from searnn.jobs.job import Job
from searnn.jobs.methods import folder_name


@dataclass(frozen=True)
class EnsembleJob(Job):
    """An ensemble: its members' folders, each with the update of its best model. All else is as of one of them."""

    members: Mapping[Path, int] = field(default_factory=dict)

    def share(self) -> float:
        """There is nothing to train."""
        return 1.0

    def measured(self) -> dict[str, Any]:
        """Which models are members."""
        return {"members": {folder.name: step for folder, step in self.members.items()}}

    def commands(self) -> list[list[str]]:
        """What is to be done: measure."""
        make_folder(self.folder)
        return [self._measure(*self.members)]

    def told(self) -> str:
        """What it is, and what it took."""
        return f"{self.label}, ensemble of {len(self.members)}"


def ensemble_of(run: Job, members: Mapping[Path, int]) -> EnsembleJob:
    """The ensemble of these members, of which `run` is one or like one; its folder stands beside theirs."""
    folder = run.folder.with_name(folder_name(run.label, f"ensemble of {len(members)}"))
    about = (run.label, run.seed, run.config, folder, run.beam, run.length_penalty, run.mbr)
    return EnsembleJob(*about, members)
