"""Memory does not grow with the length of a training: after ten times as many updates it is what it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BEFORE, AFTER = 1_000, 10_000  # updates
TOLERANCE = {
    "resident bytes": 4 * 2**20,  # what the C library holds for later differs by about a megabyte
    "blocks of Python": 5_000,  # records of the evaluations took 2,300; one block an update would be 9,000
}
TRAINING = f"""
import json, resource, sys
from pathlib import Path

from searnn import Searnn, policies, costs, losses, rng
from searnn.algorithms import Mle
from searnn.models import EncoderDecoder
from searnn.tasks import Copy
from searnn.training import Silent, TrainingSettings, fit

algorithm = {{
    "mle": Mle(),
    "searnn": Searnn(policies.Learned(), policies.Learned(), costs.Hamming(), losses.LogLoss()),
}}[sys.argv[1]]
found = {{}}


class Watch(Silent):
    def on_step(self, step, loss, seconds):
        if step in ({BEFORE}, {AFTER}):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            resident = pages * resource.getpagesize()
            found[step] = {{"resident bytes": resident, "blocks of Python": sys.getallocatedblocks()}}


task = Copy(symbols=3, length=3, examples=40)
model = EncoderDecoder(task.vocab, source_size=task.source_size, width=8, rng=rng.generator(0, "init"))
settings = TrainingSettings(batch_size=4, steps={AFTER}, minutes=600.0, eval_every=500)
fit(model, algorithm, task, settings, Path(sys.argv[2]), watch=Watch())
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells how much memory is resident")
@pytest.mark.parametrize("algorithm", ["mle", "searnn"])
def test_memory_is_that_of_a_tenth_of_the_updates(algorithm: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", TRAINING, algorithm, str(tmp_path / "run")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    found = json.loads(told.splitlines()[-1])
    for kind, most in TOLERANCE.items():
        before, after = found[str(BEFORE)][kind], found[str(AFTER)][kind]
        assert after - before < most, f"{before:,} {kind} after {BEFORE} updates, {after:,} after {AFTER}"
