"""MLE beside SEARNN on spelling, pronunciation and chunking: many runs side by side, and one table of them.

Each row is a `searnn train` command, run with several seeds; the model that is best on the validation data is then
measured on the test data by `searnn eval`. Runs are processes of their own with one thread each, as many at a time as
`--jobs` says, so that a GPU that one small model leaves idle has work.

    python experiments/tasks.py spelling-0.3 chunking/MLE chunking/LL --seeds 3 --jobs 15 --out runs/tasks
    python experiments/tasks.py --list
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

SPELLING = "spelling --windows --schedule constant --steps 10000"
G2P = "g2p --steps 15000"
CHUNKING = "chunking --steps 5000"

TABLES: dict[str, dict[str, str]] = {
    **{
        f"spelling-{noise}": {
            "MLE": f"{SPELLING} --noise {noise} --algorithm mle",
            "LL": f"{SPELLING} --noise {noise} --loss ll",
            "KL": f"{SPELLING} --noise {noise} --loss kl",
        }
        for noise in ("0.3", "0.5")
    },
    "g2p": {"MLE": f"{G2P} --algorithm mle", "LL": f"{G2P} --loss ll", "KL": f"{G2P} --loss kl"},
    "chunking": {
        "MLE": f"{CHUNKING} --algorithm mle",
        "LL": f"{CHUNKING} --loss ll",
        "LL, Hamming": f"{CHUNKING} --loss ll --cost hamming --oracle copy",
        **{f"KL, alpha {alpha}": f"{CHUNKING} --loss kl --alpha {alpha}" for alpha in (20, 50, 200)},
    },
}


def main() -> None:
    """Train, measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE[/ROW]", help=", ".join(TABLES))
    parser.add_argument("--list", action="store_true", help="print the commands of all tables")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--extra", default="", help="flags for every run, such as '--device cpu --minutes 9'")
    parser.add_argument("--out", type=Path, default=Path("runs/tasks"))
    args = parser.parse_args()
    if args.list or not args.tables:
        for name, rows in TABLES.items():
            print(name, *(f"  {label}: searnn train {flags}" for label, flags in rows.items()), sep="\n")
        return
    known = {f"{table}/{label}" for table, rows in TABLES.items() for label in rows} | set(TABLES)
    if unknown := [name for name in args.tables if name not in known]:
        parser.error(f"there is no {unknown[0]!r}: known are {', '.join(sorted(known))}")
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    jobs = [
        (table, label, seed, f"{flags} --seed {seed} {args.extra}".strip())
        for table, _, row in (name.partition("/") for name in args.tables)
        for seed in seeds
        for label, flags in TABLES[table].items()
        if row in ("", label)
    ]
    args.out.mkdir(parents=True, exist_ok=True)
    found = []
    with ThreadPoolExecutor(args.jobs) as pool, (args.out / "tasks.jsonl").open("a") as results:
        for done in as_completed([pool.submit(run, *job, args.out) for job in jobs]):
            found.append(done.result())
            results.write(json.dumps(found[-1]) + "\n")  # as they come: what ends early keeps what it has
            results.flush()
    show(sorted(found, key=lambda result: (result["table"], result["label"], result["seed"])))


def run(table: str, label: str, seed: int, flags: str, out: Path) -> dict[str, object]:
    """One run and its measure on the test data."""
    folder = out / f"{table}-{label.replace(', ', '-').replace(' ', '-')}-{seed}".lower()
    began = time.perf_counter()
    trained = searnn("train", *shlex.split(flags), "--run", str(folder))
    spent = time.perf_counter() - began
    tested = searnn("eval", str(folder), "--json", *(["--device", "cpu"] if "--device cpu" in flags else []))
    result = {"table": table, "label": label, "seed": seed, "command": f"searnn train {flags}", "seconds": spent}
    if trained.returncode or tested.returncode:
        print(f"{folder}: {trained.stderr[-400:]} {tested.stderr[-400:]}", file=sys.stderr, flush=True)
        return {**result, "failed": True}
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    curve = [{key: record[key] for key in record if key == "step" or key.startswith("valid_")} for record in records]
    ends = {key: records[-1].get(key) for key in ("step", "seconds", "steps_per_second")}
    measured = json.loads(tested.stdout)
    print(f"{folder} {label} seed {seed}: {spent:.0f} s, test {measured['metrics']}", flush=True)
    return {**result, "end": ends, "curve": curve, "test": measured["metrics"], "signature": measured.get("signature")}


def searnn(*words: str) -> subprocess.CompletedProcess[str]:
    """The command line, with one thread."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", "searnn.cli", *words], capture_output=True, text=True, env=environment)


def show(found: list[dict[str, object]]) -> None:
    """Each row's best validation and its test metrics: mean, lowest and highest over the seeds."""
    for table, label in dict.fromkeys((result["table"], result["label"]) for result in found):
        runs = [result for result in found if (result["table"], result["label"]) == (table, label) and "test" in result]
        if not runs:
            print(f"{table} | {label} | failed")
            continue
        names = list(runs[0]["test"])  # type: ignore[call-overload]
        cells = [f"test {name} {spread([result['test'][name] for result in runs])}" for name in names]  # type: ignore[index]
        for name in names:
            curves = [[point[f"valid_{name}"] for point in result["curve"]] for result in runs]  # type: ignore[attr-defined]
            better = max if name in ("bleu", "f1", "accuracy", "precision", "recall") else min
            cells.append(f"valid {name} {spread([better(curve) for curve in curves])}")
        speed = statistics.mean(result["end"]["steps_per_second"] or 0 for result in runs)  # type: ignore[index]
        print(f"{table} | {label} | {' | '.join(cells)} | {len(runs)} seeds, {speed:.1f} steps/s at the end")


def spread(values: list[float]) -> str:
    """Mean, lowest and highest."""
    return f"{statistics.mean(values):.4f} ({min(values):.4f} to {max(values):.4f})"


if __name__ == "__main__":
    main()
