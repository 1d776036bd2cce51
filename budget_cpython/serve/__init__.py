"""Serve a ledger over HTTP: an ASGI app, and the file of its keys."""

from typing import TYPE_CHECKING

from budget_cpython.serve.keys import RIGHTS, Key, KeyFile, KeyFileError

if TYPE_CHECKING:
    from budget_cpython.serve.app import make_app

__all__ = ["RIGHTS", "Key", "KeyFile", "KeyFileError", "make_app"]


def __getattr__(name: str) -> object:
    """Load the app when it is first asked for: the proxy needs none of what it imports."""
    if name != "make_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from budget_cpython.serve.app import make_app

    return make_app
