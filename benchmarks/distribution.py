"""Training that keeps the distribution, and searches that see more mistakes: many small runs, and a table of them.

    SEARNN_DATA=FOLDER python benchmarks/distribution.py RUNS --processes 20 --seconds 500
    python benchmarks/distribution.py RUNS --table

The runs are listed in the order of their importance, and each process trains the first that no other has claimed. What
has not begun when the time is over is left out; the same command goes on with it. Of each run greedy decoding and a
beam of 5 are measured on development and test data; of those with seed 0 the headroom too. RUNS/results.json has all of
it, RUNS/NAME the run itself. A language without a test file is judged on development data.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from crossfit import FOLDS

import searnn
from searnn.data import store
from searnn.types import SearnnError

Settings = Mapping[str, Any]
SEEDS = 3
LANGUAGES = {"slv": "low", "lav": "low", "ady": "low", "hbs_latn": "medium", "dut": "medium", "eng_us": "high"}
STEPS = {"low": (1500, 100, 0.99), "medium": (2500, 250, 0.999), "high": (3000, 300, 0.999)}  # evaluated, averaged
READER: Settings = {
    "target_level": "words", "width": 128, "attention": "additive", "bidirectional": True, "dropout": 0.3,
    "lr": 0.003, "schedule": "constant", "batch_size": 64,
}  # fmt: skip
SEARCH: Settings = {"normalised_cost": False, "tokens": "top", "cells": "uniform"}
SPELLING: Settings = {"noise": 0.3, "steps": 4000, "eval_every": 400, "average": 0.999, "schedule": "constant"}
TRANSLATION: Settings = {"corpus": "multi30k", "width": 128, "dropout": 0.3, "steps": 2500, "eval_every": 500}

MLE: Settings = {"algorithm": "mle", "label_smoothing": 0.1}
CE: Settings = {"cross_entropy_weight": 1.0}
SMOOTH: Settings = {**CE, "label_smoothing": 0.1}
ALONE: Settings = {"cross_entropy_weight": 0.0}
VOCABULARY, DEFAULT, AUTO = {"softmax": "vocabulary"}, {"softmax": "default-cost"}, {"loss": "kl", "alpha": "auto"}
FIRST: dict[str, Settings] = {"mle": MLE, "searnn": ALONE, "ce": CE, "smooth": SMOOTH}
KEEP: dict[str, Settings] = {  # over the whole vocabulary, or an entropy that is kept
    "vocabulary": {**ALONE, **VOCABULARY}, "vocabulary+smooth": {**SMOOTH, **VOCABULARY},
    "auto": {**ALONE, **AUTO}, "auto+smooth": {**SMOOTH, **AUTO},
    "default": {**ALONE, **DEFAULT}, "default+smooth": {**SMOOTH, **DEFAULT},
}  # fmt: skip
SAMPLED: Settings = {**SMOOTH, "roll_in": "sampled"}
SEE: dict[str, Settings] = {  # more mistakes in the search
    "dropout+smooth": {**SMOOTH, "search_dropout": True},
    "noise+smooth": {**SMOOTH, "source_noise": 0.1},
    "noise+mle": {**MLE, "source_noise": 0.1},
    "sampled+smooth": SAMPLED,
}
RECORDED: Settings = {"compile": "on"} if torch.cuda.is_available() else {}  # of parts that are not the library's


class Job(NamedTuple):
    """A run: how late it comes, its name, what is trained, and the runs that must be there before."""

    order: int
    name: str
    task: str
    settings: Settings
    needs: tuple[str, ...] = ()


def jobs(data: Path, runs: Path) -> list[Job]:
    """All runs, the most important first."""
    found: list[Job] = []

    def add(order: int, base: str, task: str, common: Settings, methods: Mapping[str, Settings], seeds: int) -> None:
        for seed in range(seeds):
            found.extend(
                Job(order + 3 * seed, f"{base}.{name}.{seed}", task, {**common, **own, "seed": seed})
                for name, own in methods.items()
            )

    for name, size in LANGUAGES.items():
        files = {split: str(data / f"{name}.{split}.tsv") for split in ("train", "valid", "test")}
        steps, every, average = STEPS[size]
        base = {**files, **READER, "steps": steps, "eval_every": every, "average": average}
        seeds = SEEDS if size != "high" else 2

        def searching(methods: Mapping[str, Settings]) -> dict[str, Settings]:
            return {name: own if "mle" in name else {**SEARCH, **own} for name, own in methods.items()}

        add(1, name, "pairs", base, searching(FIRST), seeds)
        add(2, name, "pairs", base, searching(SEE), seeds)
        add(3, name, "pairs", base, searching(KEEP), seeds)
        if size == "low":
            needs = tuple(f"{name}.fold{fold}" for fold in range(FOLDS))
            folds = ({**base, **MLE, "left_out": fold} for fold in range(FOLDS))
            found += [Job(0, need, "crossfit:Folded", own) for need, own in zip(needs, folds, strict=True)]
            crossed = {"algorithm": "crossfit:CrossFit", "models": str(runs / f"{name}.fold{{}}"), **RECORDED}
            methods = {"crossfit": {**SEARCH, **ALONE, **crossed}, "crossfit+smooth": {**SEARCH, **SMOOTH, **crossed}}
            first = len(found)
            add(2, name, "crossfit:Folded", base, methods, seeds)
            found[first:] = [job._replace(needs=needs) for job in found[first:]]
    faster: Settings = {**SPELLING, "lr": 0.003}
    add(1, "spelling", "spelling", {**SPELLING, "lr": 0.001}, {"mle": MLE}, SEEDS)
    add(1, "spelling", "spelling", faster, {name: own for name, own in FIRST.items() if name != "mle"}, SEEDS)
    add(2, "spelling", "spelling", faster, {"sampled+smooth": SAMPLED}, SEEDS)
    add(3, "spelling", "spelling", faster, KEEP, SEEDS)
    add(2, "multi30k", "translation", TRANSLATION, FIRST, 2)
    add(3, "multi30k", "translation", TRANSLATION, {name: KEEP[name] for name in ("vocabulary", "auto", "default")}, 2)
    return sorted(found, key=lambda job: job.order)


def prepare(data: Path) -> None:
    """Files of pairs for the languages; where there is no test, development data, if large a half of it."""
    data.mkdir(parents=True, exist_ok=True)
    source = store.folder("sigmorphon2021", lambda _: None)
    for name, size in LANGUAGES.items():
        train, valid = ((source / size / f"{name}_{part}.tsv").read_text().splitlines() for part in ("train", "dev"))
        path = source / size / f"{name}_test.tsv"
        test = path.read_text().splitlines() if path.exists() else valid
        if size != "low" and not path.exists():
            valid, test = valid[0::2], valid[1::2]
        for split, lines in (("train", train), ("valid", valid), ("test", test)):
            (data / f"{name}.{split}.tsv").write_text("".join(f"{line}\n" for line in lines if line))


def train(job: Job, runs: Path, deadline: float, quick: bool) -> dict[str, Any]:
    """Train one run, and measure it."""
    began = time.time()
    settings = {**job.settings, **({"steps": 6, "eval_every": 3} if quick else {})}
    minutes = max(0.05, (deadline - began - 5) / 60)
    given: dict[str, Any] = {"run": runs / job.name, "show": False, "minutes": minutes, **settings}
    try:
        run = searnn.train(job.task, **given)
    except SearnnError as error:
        if "cannot be recorded" not in str(error):
            raise
        shutil.rmtree(runs / job.name)
        run = searnn.train(job.task, **given | {"compile": "auto"})
    last = run.metrics[-1]
    result: dict[str, Any] = {"name": job.name, "settings": settings, "seconds": time.time() - began}
    result |= {name: last.get(name) for name in ("step", "entropy", "train_alpha", "equal_cost_share")}
    result |= {"metric": run.task.metric, "cut": last["step"] < settings["steps"]}
    for split in ("valid", "test"):
        for beam in (1, 5):
            result[f"{split}{beam}"] = run.evaluate(split, beam=beam)
    if settings.get("seed") == 0:
        found = run.headroom(examples=16 if quick else 400)
        result |= {"mbr": found.mbr.gain.value, "visible": (found.train.visible, found.judged.visible)}
    return {**result, "all_seconds": time.time() - began}


def work(runs: Path, only: str, deadline: float, quick: bool) -> None:
    """Train what no other process has claimed until there is nothing left, or no time."""
    torch.set_num_threads(1)
    listed = [job for job in jobs(runs / "data", runs) if re.search(only, job.name)]
    while time.time() < deadline - 20:
        left = [job for job in listed if not (runs / f"{job.name}.claim").exists()]
        ready = [job for job in left if all((runs / f"{name}.json").exists() for name in job.needs)]
        if not ready:
            if not left:
                return
            time.sleep(1)
            continue
        job = ready[0]
        try:
            os.close(os.open(runs / f"{job.name}.claim", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        try:
            result = train(job, runs, deadline, quick)
        except Exception as error:
            print("FAILED", job.name, repr(error)[:300], flush=True)
            (runs / f"{job.name}.failed").write_text(traceback.format_exc())
            continue
        (runs / f"{job.name}.new").write_text(json.dumps(result))
        (runs / f"{job.name}.new").rename(runs / f"{job.name}.json")
        value = result["valid1"][result["metric"]]
        print(f"{deadline - time.time():6.0f} {job.name} {result['all_seconds']:.1f} s {value:.4f}", flush=True)


def tables(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A table in Markdown for each data set: means over the seeds, with the range of greedy development data."""
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for result in results:
        if ".fold" not in result["name"] and not result["cut"]:
            base, method, _ = result["name"].split(".")
            found.setdefault(base, {}).setdefault(method, []).append(result)
    for base, methods in found.items():
        yield f"\n| {base} | greedy | | beam 5 | test, greedy | beam 5 | entropy | MBR gains | visible |"
        yield "| --- " * 9 + "|"
        for method, runs in methods.items():
            metric = runs[0]["metric"]
            factor = 1 if metric == "bleu" else 100
            ways = {way: [factor * run[way][metric] for run in runs] for way in ("valid1", "valid5", "test1", "test5")}
            first = next((run for run in runs if "mbr" in run), None)
            more = "| |"
            if first is not None:
                train, valid = (f"{100 * share:.1f}" for share in first["visible"])
                more = f"{factor * first['mbr']:.2f} | {train} of {valid} |"
            spread = f"{min(ways['valid1']):.2f} to {max(ways['valid1']):.2f}, {len(runs)}"
            means = {way: f"{fmean(values):.2f}" for way, values in ways.items()}
            entropy = fmean(run["entropy"] for run in runs)
            yield (
                f"| {method} | {means['valid1']} | {spread} | {means['valid5']} | {means['test1']} | {means['test5']} "
                f"| {entropy:.2f} | {more}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the processes and wait for them, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e6)
    parser.add_argument("--only", default="", help="a pattern that the names of the runs have")
    parser.add_argument("--quick", action="store_true", help="six updates a run, to see that all works")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    runs: Path = given.runs.absolute()
    if given.worker is not None:
        work(runs, given.only, given.worker, given.quick)
        return 0
    if not given.table:
        prepare(runs / "data")
        deadline = time.time() + given.seconds
        command = [sys.executable, __file__, str(runs), "--only", given.only, "--worker", str(deadline)]
        started = [subprocess.Popen([*command, *(["--quick"] if given.quick else [])]) for _ in range(given.processes)]
        for process in started:
            try:
                process.wait(timeout=max(1.0, deadline + 15 - time.time()))
            except subprocess.TimeoutExpired:
                process.kill()
        results = [json.loads(path.read_text()) for path in sorted(runs.glob("*.*.json"))]
        (runs / "results.json").write_text(json.dumps(results))
    print("\n".join(tables(json.loads((runs / "results.json").read_text()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
