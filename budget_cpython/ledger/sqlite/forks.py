"""Close SQLite's files before a fork.

A child inherits what SQLite remembers of its process's locks, but not the locks: a connection that
it opens while one is inherited holds none, and what it writes is lost once the parent closes its.
"""

import os
import weakref
from threading import Lock
from typing import Protocol


class Closing(Protocol):
    """What has a file open."""

    def hold_still(self) -> None:
        """Wait for what is being done, close, and stay so until `go_on`."""

    def go_on(self) -> None:
        """Open again when it is next used."""


_open: "weakref.WeakSet[Closing]" = weakref.WeakSet()
_still: list[Closing] = []
_forking = Lock()


def close_before(one: Closing) -> None:
    """Close this one before every fork of this process."""
    _open.add(one)


def _before() -> None:
    _forking.acquire()
    for one in _all():
        one.hold_still()
        _still.append(one)


def _all() -> list[Closing]:
    while True:
        try:
            return list(_open)
        except RuntimeError:
            pass  # another thread has just added one


def _after() -> None:
    while _still:
        _still.pop().go_on()
    _forking.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
