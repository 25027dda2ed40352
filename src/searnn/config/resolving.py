"""From what was given to a complete configuration: defaults filled in, what does not apply refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from searnn.config import recipes, registry
from searnn.config.applies import obstacle
from searnn.config.schema import GROUP_OF, Config, grouped
from searnn.types import SearnnError


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
    values: dict[str, Any] = {}
    for name in GROUP_OF:
        wanted = obstacle(name, values)
        if wanted is not None and given[name] is not None:
            if name not in optional:
                raise SearnnError(f"{say(name)} does not apply here: it belongs to {wanted}")
            given[name] = None
        unset = given[name] is None and wanted is None
        values[name] = recipes.default(name, {**given, **values}) if unset else given[name]
    if complete:
        _check_files(values)
    _check_together(values)
    return Config.model_validate(grouped(values))


def merge(base: Config, over: Config) -> Config:
    """The settings of both; where both set one, that of `over`."""
    return Config.model_validate(grouped({**base.flat(), **given_settings(over)}))


def given_settings(config: Config) -> dict[str, Any]:
    """The settings that are not unset, by name."""
    return {name: value for name, value in config.flat().items() if value is not None}


def _check_files(values: Mapping[str, Any]) -> None:
    """Refuse a task without the files that it cannot do without."""
    wanted = registry.parameters(registry.find("task", values["name"]))
    for name in ("train", "valid"):
        if values[name] is None and name in wanted and wanted[name].default is wanted[name].empty:
            told = "give one file with tabs, or two parallel ones"
            raise SearnnError(f"the task {values['name']} needs --{name}: {told}")


def _check_together(values: Mapping[str, Any]) -> None:
    """Refuse settings that are each right and together wrong."""
    if values["steps"] == values["minutes"] == values["patience"] == "none":
        raise SearnnError("nothing would end the training: give --steps, --minutes or --patience")
    if values["schedule"] in ("linear", "cosine") and values["steps"] == "none":
        raise SearnnError(f"--schedule {values['schedule']} needs to know the end: give --steps")
    if values["min_lr"] is not None and values["min_lr"] > values["lr"]:
        raise SearnnError(f"--min-lr {values['min_lr']} is above the learning rate of {values['lr']}")
