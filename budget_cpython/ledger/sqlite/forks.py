"""Close SQLite's files before a fork.

A child inherits what SQLite remembers of its process's locks, but not the locks: a connection that
it opens while one is inherited holds none, and what it writes is lost once the parent closes its.
"""

import os
import weakref
from threading import RLock
from typing import Protocol


class Closing(Protocol):
    """What has a file open."""

    def hold_still(self) -> None:
        """Wait for what is being done, close, and stay so until `go_on`."""

    def go_on(self) -> None:
        """Open again when it is next used."""


lock = RLock()
"""Held during every fork, and by who opens what is to be closed before one."""

_open: "weakref.WeakSet[Closing]" = weakref.WeakSet()
_still: list[Closing] = []


def close_before(one: Closing) -> None:
    """Close this one before every fork of this process, the next one if one is going on."""
    with lock:
        _open.add(one)


def _before() -> None:
    lock.acquire()
    for one in list(_open):
        one.hold_still()
        _still.append(one)


def _after() -> None:
    while _still:
        _still.pop().go_on()
    lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
