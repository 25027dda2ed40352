"""A table of the paper run anew: its runs, what came of them and of earlier commands, and what is to be known of it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from searnn.config import from_flags, resolve
from searnn.jobs.display import run_jobs, wide_console
from searnn.jobs.ensembles import EnsembleJob, ensemble_of
from searnn.jobs.experiments import Table
from searnn.jobs.job import Job
from searnn.jobs.methods import Method, checked, finished, folder_name, make_jobs, own_settings
from searnn.reports.comparison import slug
from searnn.reports.entries import Ensembled, TableEntry
from searnn.reports.reproduction import QUICK, Reproduced, recorded, write
from searnn.training.state import held
from searnn.training.world import launched
from searnn.types import SearnnError

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Reproduction:
    """What is to be run of a table, and how."""

    name: str
    table: Table
    seeds: range
    out: Path
    quick: bool = False  # with a small budget
    only: Sequence[str] = ()  # texts that choose entries; without any all
    settings: Sequence[str] = ()  # of searnn train, for all runs

    def chosen(self) -> dict[str, list[Method]]:
        """The methods of each row that are wanted, each with its complete settings."""
        for text in self.only:
            if not any(self.table.chosen(row, [text]) for row in self.table.rows):
                raise SearnnError(f"--only {text}: {self.name} has no such entry; --list shows all")
        chosen = {row: found for row in self.table.rows if (found := self._methods(row))}
        if not chosen:
            raise SearnnError(f"{self.name} has no entries to run: choose some with --only; --list shows all")
        return chosen

    def _methods(self, row: str) -> list[Method]:
        task, found = self.table.rows[row].task, []
        for column in self.table.chosen(row, self.only, self.quick):
            try:
                given = own_settings(task, self.table.settings(row, column, self.quick, self.settings))
                given = {**given, "name": task, "seed": str(self.seeds.start)}
                found.append(Method(column, resolve(from_flags(given))))
            except SearnnError as error:
                raise SearnnError(f"{row}, {column}: {error}") from error
        return found

    def command(self, row: str, method: Method) -> str:
        """How one run is made by itself; with what follows from the data that are there."""
        about, found = self.table.rows[row], method.config.flat()
        more = [f"--{'' if found[name] else 'no-'}{name}" for name in about.paper_needs]
        algorithm, *flags = self.table.settings(row, method.label, self.quick, [*self.settings, *more])
        return shlex.join(["searnn", "train", about.task, "--algorithm", algorithm, *flags, "--seed", "N"])

    def run(self, at_once: int | None = None, share: tuple[int, int] | None = None) -> int:
        """The exit status, once all runs of this process have come to their end and the table is written.

        `share` says which runs are this process's: number so many of so many. Under torchrun every rank has its own.
        """
        chosen, console, world = self.chosen(), wide_console(), launched()
        tell = partial(console.print, highlight=False, markup=False, soft_wrap=True)
        if share is not None and world.size > 1:
            raise SearnnError("under torchrun every process takes its own share: leave out --share")
        number, shares = share or (world.rank, world.size)
        metrics = self._read_data(chosen, console)
        self._earlier(metrics)  # refuses what cannot be joined, before anything is run
        jobs = self.jobs(chosen)
        own = [job for found in jobs.values() for job in found][number::shares]
        told = "" if shares == 1 else f" (share {number} of {shares})"
        if run_jobs(console, own, at_once, self.out, told=told, world=world).interrupted:
            return 130

        def entries() -> list[TableEntry]:
            return [
                self._entry(row, method, [job for job in jobs[row] if job.label == method.label], metrics[row])
                for row, found in chosen.items()
                for method in found
            ]

        runs = {(row, job.label): job for row, found in jobs.items() for job in found}
        whole = self._joined(self._earlier(metrics), entries(), lambda _: None).entries
        ensembles = [job for entry in whole if (job := self._ensemble(entry, runs)) is not None]
        unmeasured = False
        if ensembles:
            tally = run_jobs(console, ensembles, at_once, self.out, world=world, kind="ensemble")
            unmeasured = bool(tally.failed)
            if tally.interrupted:
                return 130
        with held(self.out, wait=True):  # who ends last writes all that is there
            now = entries()
            joined = self._joined(self._earlier(metrics), now, tell)
            table = replace(joined, entries=[self._with_ensemble(entry, runs) for entry in joined.entries])
            written = write(table, self.out, tell)
        missing = sum(entry.missing for entry in now)
        if others := world.size > 1 and missing > 0:
            tell(f"{missing} of the runs of other ranks to come; the last rank to end shows the table")
        else:
            console.print(table.terminal(console))
        tell("written: " + ", ".join(str(path) for path in written))
        failed = unmeasured or any(entry.failed for entry in now)
        return 1 if failed and not others else 0  # torchrun would end the others

    def jobs(self, chosen: Mapping[str, list[Method]]) -> dict[str, list[Job]]:
        """All runs of each row."""
        beam, mbr = (1, 0) if self.quick else (self.table.beam, self.table.mbr)
        return {row: make_jobs(found, self.seeds, self.out / slug(row), beam, mbr=mbr) for row, found in chosen.items()}

    def _read_data(self, chosen: Mapping[str, list[Method]], console: Console) -> dict[str, str]:
        """The metric of each row; what can be refused before a long run is, with advice how to do without it."""
        found = {}
        for row, methods in chosen.items():
            try:
                found[row] = checked(methods, console).metric
            except SearnnError as error:
                others = [other for other in chosen if other != row]
                told = f"; without it: --only {shlex.join(others)}" if others and not self.only else ""
                raise SearnnError(f"{row}: {error}{told}") from error
        return found

    def _entry(self, row: str, method: Method, jobs: list[Job], metric: str) -> TableEntry:
        """What has come of the runs of one method, each with another seed."""
        failed = {job.seed: why for job in jobs if (why := job.failure()) is not None}
        paper = self.table.rows[row].papers_number(method.label, method.config.flat())
        results, seeds = finished(jobs, metric), [job.seed for job in jobs]
        return TableEntry(row, method.label, self.command(row, method), paper, metric, results, seeds, failed)

    def _ensemble(self, entry: TableEntry, runs: Mapping[tuple[str, str], Job]) -> EnsembleJob | None:
        """The ensemble of an entry's runs with the lowest seeds; none as long as some are missing.

        `runs` has one of the runs of each place that is this command's.
        """
        run = runs.get((entry.row, entry.column))
        members = entry.results[: self.table.ensemble]
        if run is None or len(members) < 2 or entry.missing:
            return None
        return ensemble_of(
            run, {run.folder.with_name(folder_name(run.label, one.seed)): one.best_step for one in members}
        )

    def _with_ensemble(self, entry: TableEntry, runs: Mapping[tuple[str, str], Job]) -> TableEntry:
        """The entry with what was measured of its ensemble; what is not this command's is left as it is."""
        if (entry.row, entry.column) not in runs:
            return entry
        job = self._ensemble(entry, runs)
        test = None if job is None else job.tested()
        if job is None or test is None:
            return replace(entry, ensemble=None)
        seeds = [one.seed for one in entry.results[: self.table.ensemble]]
        return replace(entry, ensemble=Ensembled(seeds, str(job.folder), test))

    def _earlier(self, metrics: Mapping[str, str]) -> list[TableEntry]:
        """What other commands have left in the folder; refuses what cannot stand beside the new entries."""
        entries, quick = recorded(self.out / f"{self.name}.json")
        told = None
        if entries and quick != self.quick:
            told = "the small budget of --quick" if quick else "the whole budget"
        elif other := next((one for one in entries if one.metric != metrics.get(one.row, one.metric)), None):
            told = f"{other.row} by {other.metric}, not by {metrics[other.row]}"
        if told is not None:
            raise SearnnError(f"{self.out} holds a table with {told}: give another folder with --out")
        return entries

    def _joined(self, earlier: Iterable[TableEntry], now: Iterable[TableEntry], tell: Tell) -> Reproduced:
        """The table of these entries and of earlier ones, as far as the table still has them."""
        there = {(entry.row, entry.column): entry for entry in earlier}
        new = {(entry.row, entry.column): entry for entry in now}
        for place, entry in new.items():
            before = there.get(place, entry)
            if before.results and before.command != entry.command:
                told = f"what earlier runs have (seeds {', '.join(str(run.seed) for run in before.results)})"
                tell(f"{', '.join(place)}: {told} is left out, their settings were others: {before.command}")
        entries = {**there, **{place: entry.joined(there.get(place)) for place, entry in new.items()}}
        places = [(row, column) for row in self.table.rows for column in self.table.columns]
        found = [entries[place] for place in places if place in entries]
        return Reproduced(
            name=self.name,
            title=self.table.title,
            note=self._note(found, same=entries.keys() == new.keys()),
            unit=self.table.unit,
            scale=self.table.scale,
            entries=found,
            order=list(self.table.columns),
            mean_of_rows=self.table.mean_of_rows,
            metrics=self.table.metrics,
            groups=self.table.groups,
            quick=self.quick,
        )

    def _note(self, entries: Sequence[TableEntry], same: bool) -> str:
        """What is to be known of the numbers; `same` where all are this command's."""
        told = [QUICK] if self.quick else []
        told += [f"Test {self.table.unit}, {over(entries)}; best model by validation."]
        told += [f"All with {shlex.join(self.settings)}."] if self.settings and same else []
        if self.table.ensemble > 1:
            told.append(f"Ensembles are of the first {self.table.ensemble} runs, as far as there are so many.")
        told += [self.table.note] if self.table.note else []
        rows = self.table.rows
        apart = [entry.row for entry in entries if entry.paper is None and entry.column in rows[entry.row].paper]
        if apart:
            told.append(f"{', '.join(dict.fromkeys(apart))}: other data than the paper's, without its numbers.")
        return " ".join(told)


def over(entries: Iterable[TableEntry]) -> str:
    """What the numbers of these entries are taken over."""
    seeds = {tuple(sorted([*(result.seed for result in entry.results), *entry.failed])) for entry in entries} - {()}
    if not seeds:
        return "no run has come to its end"
    first, last = min(map(min, seeds)), max(map(max, seeds))
    if len(seeds) > 1:
        return f"mean and range over each cell's own seeds, from {first} to {last}"
    return f"mean and range over the seeds {first} to {last}" if first < last else f"seed {first}"
