"""Close SQLite's files before a fork.

A child inherits what SQLite remembers of its process's locks, but not the locks: a connection that
it opens while one is inherited holds none, and what it writes is lost once the parent closes its.
"""

import os
import weakref
from threading import RLock
from typing import Protocol


class Forked(Protocol):
    """An object that has a file open."""

    def before_fork(self) -> None:
        """Wait for the transaction under way, close the file, and keep it closed."""

    def after_fork(self, in_child: bool) -> None:
        """Let the file be opened again."""


lock = RLock()
"""Held during every fork, and while a file is opened that is to be closed before one."""

_open: "weakref.WeakSet[Forked]" = weakref.WeakSet()
_closed: list[Forked] = []


def close_before(one: Forked) -> None:
    """Close this one before every fork of this process; waits for a fork under way."""
    with lock:
        _open.add(one)


def _before() -> None:
    lock.acquire()
    for one in list(_open):
        one.before_fork()
        _closed.append(one)


def _after(in_child: bool) -> None:
    while _closed:
        _closed.pop().after_fork(in_child)
    lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before,
        after_in_parent=lambda: _after(False),
        after_in_child=lambda: _after(True),
    )
