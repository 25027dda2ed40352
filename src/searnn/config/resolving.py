"""From what was given to a complete configuration: defaults filled in, what does not apply refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from searnn.config import recipes, registry
from searnn.config.applies import obstacle
from searnn.config.schema import DECLARED, Config, Declared, chosen, extended, names, own_parts, validated
from searnn.settings import arguments, expected, listed
from searnn.training.settings import FALLING
from searnn.types import SearnnError


class Resolving(Mapping[str, Any]):
    """The settings, each found when it is asked for: as it was given, else its default where it applies.

    So a default or a condition may look at any other setting. One that comes to itself again finds what was given.
    """

    def __init__(self, given: Mapping[str, Any], known: Mapping[str, Declared]) -> None:
        self.given, self.known = given, known
        self.found: dict[str, Any] = {}
        self.obstacles: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self.found:
            self.found[name] = self.given[name]
            self.obstacles[name] = obstacle(self.known[name], self)
            if self.obstacles[name] is not None:
                self.found[name] = None
            elif self.given[name] is None:
                self.found[name] = recipes.default(name, self, self.known)
        return self.found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def resolve(
    config: Config,
    say: Callable[[str], str] = registry.flag,
    *,
    complete: bool = True,
    optional: Collection[str] = (),
) -> Config:
    """The same configuration with the task's recipe filled in where nothing was given and the setting applies.

    `say` turns a setting's name into what the user wrote: its flag, or its key in a file. Unless it must be `complete`,
    what no default can fill in may be missing. `optional` settings are left out where they do not apply.
    """
    given = config.flat()
    if given["name"] is None:
        raise SearnnError(f"no task is named: give one of {', '.join(registry.AXES['task'])}")
    registry.find("task", given["name"])
    known = {**config.declared, **extended(own_parts(given)).declared}
    values = Resolving({**dict.fromkeys(known), **given}, known)
    for name in known:
        _ = values[name]
        wanted = values.obstacles[name]
        if wanted is not None and given.get(name) is not None and name not in optional:
            raise SearnnError(f"{say(name)} does not apply here: it belongs to {wanted}")
    if complete:
        _check_files(values)
    _check_words(values, say)
    _check_together(values)
    return validated({name: value for name, value in values.items() if value is not None or name in DECLARED})


def merge(base: Config, over: Config) -> Config:
    """The settings of both; where both set one, that of `over`."""
    return validated({**base.flat(), **given_settings(over)}, (*base.own, *over.own))


def given_settings(config: Config) -> dict[str, Any]:
    """The settings that are not unset, by name."""
    return {name: value for name, value in config.flat().items() if value is not None}


def _check_files(values: Mapping[str, Any]) -> None:
    """Refuse a task without the files that it cannot do without."""
    wanted = arguments(registry.find("task", values["name"]))
    for name in ("train", "valid"):
        if values[name] is None and name in wanted and wanted[name].needed:
            told = "give one file with tabs, or two parallel ones"
            raise SearnnError(f"the task {values['name']} needs --{name}: {told}")


def _check_words(values: Resolving, say: Callable[[str], str]) -> None:
    """Refuse a word that stands for None, such as auto, where what is chosen cannot do without a value."""
    members = [(axis, name) for axis in registry.AXES for name in chosen(axis, values)]
    for axis, name in members:
        for argument, key in names(axis, name).items():
            wanted, setting = arguments(registry.find(axis, name))[argument], values.known[key].setting
            if setting.none and values[key] == setting.none and not wanted.optional:
                takers = [one for one in registry.takers(axis, argument) if _may_be_none(axis, one, argument)]
                told = f"{registry.flag(axis)} {name} takes {expected(wanted, setting)}"
                others = f"{setting.none} is for {registry.flag(axis)} {listed(takers)}"
                raise SearnnError(f"{say(key)} {setting.none} does not apply here: {told}, {others}")


def _may_be_none(axis: str, name: str, argument: str) -> bool:
    return arguments(registry.find(axis, name))[argument].optional


def _check_together(values: Mapping[str, Any]) -> None:
    """Refuse settings that are each right and together wrong."""
    if values["steps"] == values["minutes"] == values["patience"] == "none":
        raise SearnnError("nothing would end the training: give --steps, --minutes or --patience")
    if values["schedule"] in FALLING and values["steps"] == values["minutes"] == "none":
        raise SearnnError(f"--schedule {values['schedule']} needs to know the end: give --steps or --minutes")
    if values["eval_every"] == values["minutes"] == "none":
        raise SearnnError("--eval-every none evaluates by time: give --minutes, or a number")
    if values["min_lr"] is not None and values["min_lr"] > values["lr"]:
        raise SearnnError(f"--min-lr {values['min_lr']} is above the learning rate of {values['lr']}")
