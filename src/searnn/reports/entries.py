"""What stands in one place of a table of runs: the runs with their seeds, the ensemble of them, a published number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from searnn.reports.comparison import Result


@dataclass(frozen=True)
class Ensembled:
    """The ensemble of some runs of an entry: their seeds, its folder, and what was measured on the test data."""

    seeds: list[int]
    folder: str
    test: dict[str, float]


@dataclass(frozen=True)
class TableEntry:
    """What stands in one place of a table: what the paper has, and the finished runs that stand beside it."""

    row: str
    column: str
    command: str
    paper: float | None
    metric: str
    results: Sequence[Result]
    seeds: Sequence[int]  # of the runs that are planned
    failed: Mapping[int, str] = field(default_factory=dict)  # why, by seed
    ensemble: Ensembled | None = None  # of those runs that have the lowest seeds

    @property
    def missing(self) -> int:
        """How many runs have neither come to their end nor failed."""
        return len(self.seeds) - len(self.results) - len(self.failed)

    def joined(self, earlier: TableEntry | None) -> TableEntry:
        """With what an earlier command, the same but for its seeds, has made of the entry."""
        if earlier is None or earlier.command != self.command:
            return self
        results = {result.seed: result for result in (*earlier.results, *self.results)}
        failed = {seed: why for seed, why in earlier.failed.items() if seed not in self.seeds} | dict(self.failed)
        seeds = sorted({*earlier.seeds, *self.seeds})
        found = [results[seed] for seed in sorted(results) if seed not in failed]
        return replace(self, results=found, seeds=seeds, failed=dict(sorted(failed.items())))
