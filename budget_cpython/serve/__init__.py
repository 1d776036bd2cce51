"""Serve a ledger over HTTP: an ASGI app, and the file of its keys.

A name is loaded from its module when it is first asked for: `microbudget run` listens without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budget_cpython.serve.app import make_app
    from budget_cpython.serve.keys import RIGHTS, Key, KeyFile, KeyFileError

__all__ = ["RIGHTS", "Key", "KeyFile", "KeyFileError", "make_app"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "app" if name == "make_app" else "keys"
    return getattr(import_module(f"{__name__}.{home}"), name)
