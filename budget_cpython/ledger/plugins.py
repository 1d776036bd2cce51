"""Plugins of other packages: adapters of `budgeted`, and engines of `open_ledger`.

A program registers one by a decorator, an installed package by an entry point of the same name.
"""

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from budget_cpython.context.process_state import PLUGINS

T = TypeVar("T")


def register(group: str, name: str, taken: Iterable[str]) -> Callable[[T], T]:
    """Return a decorator that adds a plugin of a group under a name.

    Raises `ValueError` for a name that this package has `taken`, or another plugin has.
    """
    if name in taken or (group, name) in PLUGINS:
        raise ValueError(f"{group} has {name!r} already")

    def add(plugin: T) -> T:
        PLUGINS[group, name] = plugin
        return plugin

    return add


def find_plugin(group: str, names: Iterable[str]) -> tuple[str, Any] | None:
    """Return the first of some names that a plugin of a group has, and the plugin.

    Raises `ImportError`, which names the plugin, if it cannot be loaded.
    """
    installed = None
    for name in names:
        if (group, name) in PLUGINS:
            return name, PLUGINS[group, name]
        installed = entry_points(group=group) if installed is None else installed
        for entry in installed.select(name=name):
            return name, PLUGINS.setdefault((group, name), _loaded(entry))
    return None


def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        package = "" if entry.dist is None else f" of {entry.dist.name}"
        text = f"the plugin {entry.value}{package}, for {entry.name!r} in {entry.group}, "
        raise ImportError(f"{text}cannot be loaded: {error}") from error
