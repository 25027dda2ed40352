"""The folder of a run: made for a new one, taken away where nothing came of it; its settings, then and now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from searnn.config import Config, files, merge, resolve, trust
from searnn.config.registry import flag
from searnn.config.resolving import given_settings
from searnn.files import (
    NEW,
    advice,
    append,
    drop_folder,
    empty_folder,
    make_folder,
    make_new_folder,
    remove,
    rename,
    sync_folder,
)
from searnn.training import World, checkpoints
from searnn.training.memory import shortage
from searnn.training.state import FREE_TO_CHANGE, held, spanned
from searnn.types import SearnnError

SETTINGS = files.SETTINGS
BEGUN = SETTINGS + NEW  # there without the settings: a start was killed before they were whole
TEXT = "text"  # what a task on text has learned of its data
MAY_CHANGE = (*FREE_TO_CHANGE, "threads")  # when a run is resumed


def settings_of(
    folder: Path, trusted: trust.Trusted, axes: Collection[str] = trust.ALL, *, refuse: bool = True
) -> Config:
    """The settings that a run was made with; of the code that they name only that on these axes is imported.

    What of it is not trusted is refused, or else not imported either.
    """
    if not folder.is_dir():
        raise SearnnError(f"there is no run folder {folder}")
    path = folder / SETTINGS
    if was_cut_off(folder):
        raise SearnnError(f"the run in {folder} had not begun: give the command again that was to start it")
    if not path.is_file():
        raise SearnnError(f"{folder} is not the folder of a run: it has no {SETTINGS}")
    return trust.complete(path, trust.opening(path, trusted, axes, refuse=refuse))


def is_fixed(name: str, before: Mapping[str, Any]) -> bool:
    """Whether a setting must stay as it was when a run with these settings goes on."""
    return name not in MAY_CHANGE or name in spanned(before)


def resumed(folder: Path, given: Config, trusted: trust.Trusted) -> Config:
    """The settings of the run, with those that may change as they are given now."""
    saved = settings_of(folder, trusted)
    before = saved.flat()
    for name, value in given_settings(given).items():
        if before[name] != value and is_fixed(name, before):
            was = "unset" if before[name] is None else before[name]
            why = f", which --schedule {before['schedule']} runs over" if name in spanned(before) else ""
            change = f"it was {was}, now it is {value}"
            raise SearnnError(f"{folder} cannot be resumed with another {flag(name)}{why}: {change}")
    return resolve(merge(saved, given))


def runs_in(folders: Iterable[Path]) -> list[Path]:
    """The folders of runs: those that are named, and those in folders that are no runs themselves."""
    found: dict[Path, Path] = {}
    for folder in folders:
        inside = []
        if folder.is_dir() and not any((folder / name).is_file() for name in (SETTINGS, "metrics.jsonl")):
            inside = [path.parent for path in sorted(folder.glob(f"*/{SETTINGS}"))]
        for path in inside or [folder]:
            if path.resolve() in found:
                raise SearnnError(f"the run {path} was given twice")
            found[path.resolve()] = path
    return list(found.values())


def is_taken(folder: Path) -> bool:
    """Whether there is something already: a file, or a folder that holds more than a start that was killed has left."""
    return folder.exists() and not (folder.is_dir() and (not any(folder.iterdir()) or was_cut_off(folder)))


def was_cut_off(folder: Path) -> bool:
    """Whether a start was killed there before the settings were written: from then on the run can be resumed."""
    left = (folder / BEGUN).is_file() and not (folder / SETTINGS).exists()
    return left and not any(checkpoints.exists(folder / name) for name in ("last", "best"))


def new_folder(folder: Path | None, config: Config) -> Path:
    """The folder, made where it was not there; without one the first of `runs/TASK-ALGORITHM-1`, `-2` that is free."""
    try:
        number = 0
        while folder is None:
            number += 1
            place = Path("runs", f"{config.task.name}-{config.method.algorithm}-{number}")
            make_folder(place.parent)
            with suppress(FileExistsError):
                make_new_folder(place)  # at once, so that nobody else takes it
                folder = place
        make_folder(folder)
        return folder
    except OSError as error:
        raise SearnnError(f"cannot make the folder {error.filename or folder}: {advice(error)}") from error


@contextmanager
def opened(folder: Path | None, config: Config, world: World, *, resume: bool = False) -> Iterator[Path]:
    """The folder of a run, which no other process trains in meanwhile: a new one, or that of the run to resume.

    All that was made of a new one is taken away where training fails before its first checkpoint. The same where memory
    runs out before the first evaluation: it cannot be resumed with what would need less.
    """
    wanted = folder if folder is not None else Path("runs", "new")
    before = {place for place in (wanted, *wanted.parents) if place.exists()}
    with ExitStack() as until_the_end:
        place, is_ours = world.by_first(lambda: _take(folder, config, resume, until_the_end))
        try:
            if not resume:
                world.by_first(lambda: _begin(place, is_ours))
            yield place
        except BaseException as error:
            needed = "best" if shortage(error) else "last"
            if world.first and is_ours and not any((place / needed).glob("*.json")):
                with suppress(OSError):
                    _take_away(place, before)
            raise


def _take(folder: Path | None, config: Config, resume: bool, until_the_end: ExitStack) -> tuple[Path, bool]:
    """Hold the folder, before anything is written there; also whether all that will be in it is ours to remove."""
    place = folder if resume and folder is not None else new_folder(folder, config)
    is_held = until_the_end.enter_context(held(place))
    if not resume and is_taken(place):  # another start was quicker
        raise SearnnError(f"{place} exists already: give another folder, or go on with the run there by --resume")
    return place, is_held and not resume


def _begin(place: Path, is_ours: bool) -> None:
    """Mark the folder as one where a start is under way, which the same command may begin again."""
    try:
        append(place / BEGUN, b"")
        if is_ours:
            empty_folder(place, but=BEGUN)
        sync_folder(place.parent)
    except OSError as error:
        raise SearnnError(f"cannot write {place}: {advice(error)}") from None


def _take_away(place: Path, before: Collection[Path]) -> None:
    """Remove a new run; wherever this is cut off, the run can be resumed or begun again."""
    for name in ("metrics.jsonl", "last/state.json", "best/state.json"):
        if (place / name).exists():
            remove(place / name)
            sync_folder((place / name).parent)
    if (place / SETTINGS).exists():
        rename(place / SETTINGS, place / BEGUN)
    empty_folder(place, but=BEGUN)
    sync_folder(place)
    remove(place / BEGUN)
    for made in (place, *place.parents):
        if made in before:
            break
        drop_folder(made)  # fails where someone else has put something there
