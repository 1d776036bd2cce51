"""Budgets for LLM agents in the MicroPython subset: every rule lives here once.

A name is loaded from its module when it is first asked for, so a program pays for what it uses.
Where the list of names is precompiled, it is loaded for that moment only.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    names = _module("_names")
    if getattr(names, "__file__", "").endswith(".mpy"):
        del sys.modules["budget_core._names"], globals()["_names"]
    for line in names.PUBLIC.split("\n"):
        home = line.split(" ")
        if name in home[1:]:
            globals()[name] = value = getattr(_module(home[0]), name)
            return value
    try:
        return _module(name)  # MicroPython asks here before it looks for a module of that name
    except ImportError:
        raise AttributeError(f"budget_core has no {name}")


def _module(name: str) -> "Any":
    return __import__("budget_core." + name, None, None, (name,))
