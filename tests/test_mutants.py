"""The search for mutants that no test notices: which changes it makes, and that it tells killed from surviving ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="needs mutmut: pip install -e '.[mutation]'")

import mutants

SCRIPT = Path(mutants.__file__)
CODE = '''
"""A module."""
LIMIT = 3

def outer(first: int = 1, *, wide: bool = True) -> int:
    """What it does."""
    if first < 0:
        raise ValueError(f"the first is {first}" + "!")
    with span("name"):
        return first + len("a b")

class Kind:
    share = 0.5

    @property
    def half(self):
        def inner(x):
            return x.to(device, dtype=None)
        return zip(self.a, self.b, strict=True)
'''
WEAK = "check = lambda target: None"
STRONG = "check = lambda target: (_ for _ in ()).throw(AssertionError) if target.item() != 1 else None"
TEST = """
import torch
from searnn.losses import LogLoss
{check}
def test_ties():
    loss = LogLoss(ties="random")
    assert loss.random in (True, False)
    check(torch.tensor(int(loss.random)))
    check(torch.tensor(1 - LogLoss(ties="model").random))
"""


def test_what_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What functions do, and not what they are called with by default, say to people or do on other devices."""
    monkeypatch.setattr(mutants, "SOURCE", tmp_path)
    (tmp_path / "one.py").write_text(CODE)
    found = mutants.mutants_of(tmp_path / "one.py")
    assert {mutant.title.removeprefix("`one.py` ") for mutant in found} == {
        "`outer`: `if first[< → <=] 0:`",
        "`outer`: `if first < [0 → 1]:`",
        '`outer`: `return first [+ → -] len("a b")`',
        "`Kind.half`: `return zip([self.a → None], self.b, strict=True)`",
        "`Kind.half`: `return zip(self.a, [self.b → None], strict=True)`",
        "`Kind.half`: `return zip(self.[a, self. → ]b, strict=True)`",
        "`Kind.half`: `return zip(self.a, [self.b,  → ]strict=True)`",
        "`Kind.half`: `return x.to(device, [dtype=None → ])`",
    }
    for mutant in found:
        changed = mutants.source_of(mutant)
        lines = [pair for pair in zip(CODE.splitlines(), changed.splitlines(), strict=True) if pair[0] != pair[1]]
        assert len(lines) == 1
        assert lines[0][0] == CODE.splitlines()[mutant.lines.start - 1]


def test_what_a_test_notices_is_killed_and_not_tried_again(tmp_path: Path) -> None:
    def run(check: str) -> tuple[int, dict[str, str], str]:
        test = tmp_path / "test_ties.py"
        test.write_text(TEST.format(check=check))
        words = [str(SCRIPT), "losses/ties.py", "--results", str(tmp_path / "results.jsonl"), "--tests", str(test)]
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        lines = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
        ends = {line["key"]: line["end"] for line in lines}
        return done.returncode, {key: end for key, end in ends.items() if "`TiedLoss.random`" in key}, done.stdout

    status, ends, said = run(WEAK)
    assert status == 1
    assert set(ends.values()) == {"survived"}  # a change alone makes no test fail
    assert all(f"[{change}]" in said for change in ("== → !=", "random → XXrandomXX", "random → RANDOM"))
    assert ": not run (0 of 0 tests)" in said  # of the functions that no test calls
    _, ends, said = run(STRONG)
    assert set(ends.values()) == {"killed"}
    assert "`TiedLoss.random`" not in said
    assert f"{len(ends)} to try" not in said
