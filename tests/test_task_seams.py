"""What each built-in task offers besides the least: exactly what it has to say, under the names of `interfaces`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from made_letters import npz, small
from tiny_data import conll_files, data_folder, write_lines

from searnn.interfaces import (
    Fingerprinted,
    GivesRoom,
    HasUnits,
    KeepsVocabulary,
    Knowledgeable,
    Loads,
    NamesSources,
    ReadsLines,
    ReadsTargets,
    Sharded,
    Signed,
    Task,
)
from searnn.sequences.ends import strip
from searnn.tasks import Chunking, Copy, Ocr, Pairs, Pronunciation, Spelling, Translation

OF_TEXTS = {
    ReadsLines, ReadsTargets, NamesSources, GivesRoom, KeepsVocabulary, HasUnits, Knowledgeable, Signed,
}  # fmt: skip
OFFERS: dict[type, set[type]] = {
    Chunking: OF_TEXTS - {GivesRoom, Signed},
    Copy: {ReadsLines, GivesRoom},
    Ocr: set(),
    Pairs: OF_TEXTS,
    Pronunciation: OF_TEXTS,
    Spelling: {ReadsLines, ReadsTargets, NamesSources, GivesRoom, HasUnits},
    Translation: OF_TEXTS,
}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[type], Task]:
    """Each task on tiny data."""
    conll_files(data_folder(tmp_path, monkeypatch))
    pairs = [write_lines(tmp_path / "pairs.tsv", [f"{'ab' * n}\t{'ba' * n}" for n in range(1, 9)])]
    letters = tmp_path / "letters.npz"
    letters.write_bytes(npz(**vars(small())))
    arguments = {
        Ocr: {"path": letters},
        Pairs: {"train": pairs, "valid": pairs},
        Spelling: {"train": [write_lines(tmp_path / "text.txt", [f"line {n} of the text" for n in range(99)])]},
    }
    return lambda task: task(**arguments.get(task, {}))


@pytest.mark.parametrize("kind", OFFERS, ids=lambda kind: kind.__name__)
def test_each_task_offers_what_it_has_to_say(make: Callable[[type], Task], kind: type) -> None:
    task = make(kind)
    assert isinstance(task, Task)
    assert isinstance(task, Loads)
    assert {seam for seam in OF_TEXTS if isinstance(task, seam)} == OFFERS[kind]
    task.load()
    data = task.train(1, seed=0)
    assert isinstance(data, Sharded)
    assert isinstance(data, Fingerprinted)


@pytest.mark.parametrize("kind", [kind for kind, seams in OFFERS.items() if ReadsTargets in seams])
def test_inputs_are_named_and_outputs_are_read_as_they_are_shown(make: Callable[[type], Task], kind: type) -> None:
    task = make(kind)
    assert isinstance(task, NamesSources)
    assert isinstance(task, ReadsTargets)
    batch = next(iter(task.valid(3)))
    for row, target in enumerate(strip(batch.targets, task.vocab)):
        assert task.show(task.read_target(task.show(target))) == task.show(target).strip()
        source = batch.inputs.values[row, : int(batch.inputs.lengths[row])].tolist()
        names = task.source_units(source)
        assert len(names) == len(source)
        assert task.show_source(source).replace(" ", "") == "".join(names).replace(" ", "")
