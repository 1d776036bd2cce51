"""Serve a ledger over HTTP: an ASGI app, and the file of its keys."""

from budget_cpython.serve.app import make_app
from budget_cpython.serve.keys import RIGHTS, Key, KeyFile, KeyFileError

__all__ = ["RIGHTS", "Key", "KeyFile", "KeyFileError", "make_app"]
