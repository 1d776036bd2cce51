"""The state that a whole process shares, and what becomes of it at a fork and at the end.

All other state is of an object, of a context (`ContextVar`), or a cache of what can be computed
again. The core's own is in its ledger room: `hold.ROOMS` and `llm_account.IN_PROCESS` have the
calls that wait for a ledger and what it is owed. What ledgers of this package note of calls, and
know for them, they have as their `ledger.process.PROCESS`.

| state | for | in a forked child | at the end |
| --- | --- | --- | --- |
| `OPEN_CALLS` | calls of models that are not settled yet | left to the parent | abandoned |
| `OPENED_LEDGERS` | ledgers of URLs, each opened once | kept | closed |
| `GIVEN_LEDGERS` | open ledgers that accounts draw on, by id | kept | |
| `DEFAULT_LIMITS` | limits set in the default ledger, by URL and account | kept | |
| `DEPLOYED` | which model answers for a deployment, by server and name | kept | |
| `ROUTERS` | the budgets of LiteLLM's routers, by the mark of their calls | kept | |
| `FRAME_OWNERS` | the `with`s that generators have entered, by the frame's id | kept | |
| `TOOL_GROUPS` | groups of processes that run tools | left to the parent | killed |
| `HELPERS` | processes of proxies that read large bodies | left to the parent | ended by it |
| `REPLACED` | methods that were replaced, once each | kept | |
| `PLUGINS` | adapters and engines of other packages, by group and name | kept | |
| `OBSERVERS` | observers of calls, for telemetry | kept | |
| `LATE_CALLS` | calls that ended where no observer can be told | left to the parent | |
| `USAGE_LOGS` | what calls used of ledgers by model and tool, by ledger | kept, empty | |
| `UNTOLD` | what operators are still to be told: refusals, usage | left to the parent | told |
| `SWITCHES` | what is on, of `instrument()` and telemetry, and what was said once | kept | |

An open SQLite file is closed before a fork: a child inherits what SQLite remembers of its process's
locks, but not the locks. A connection that it opens while one is inherited holds none, and what it
writes is lost once the parent closes its. Whatever else was locked, leased, granted or owed remains
the parent's: used by both, it would count once.
"""

import atexit
import os
from collections import deque
from contextlib import suppress
from threading import RLock
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Forkable(Protocol):
        """An object whose part of a budget belongs to one process."""

        def begin_again(self) -> None:
            """Have nothing, owe nothing, and have new locks."""

    class OpenFile(Protocol):
        """An object that has a file open."""

        def before_fork(self) -> None:
            """Wait for the transaction under way, close the file, and keep it closed."""

        def after_fork(self, in_child: bool) -> None:
            """Let the file be opened again."""


class Switches:
    """The switches that are on in a process, and the warnings it has given."""

    is_instrumented = False
    has_warned = False  # of a call in a block that nothing counts
    telemetry: "Any" = None  # what `enable_telemetry` made last


LOCK = RLock()
"""Held while ledgers are opened and methods replaced, and during every fork."""

OPEN_CALLS: "WeakSet[Any]" = WeakSet()
OPENED_LEDGERS: "dict[str, Any]" = {}
GIVEN_LEDGERS: "WeakValueDictionary[int, Any]" = WeakValueDictionary()
DEFAULT_LIMITS: "dict[tuple[str, str], Any]" = {}
DEPLOYED: "dict[tuple[str, str], str]" = {}
ROUTERS: "WeakValueDictionary[str, Any]" = WeakValueDictionary()
FRAME_OWNERS: "WeakValueDictionary[int, Any]" = WeakValueDictionary()
TOOL_GROUPS: "set[int]" = set()
HELPERS: "set[int]" = set()
REPLACED: "set[tuple[Any, str]]" = set()
PLUGINS: "dict[tuple[str, str], Any]" = {}
OBSERVERS: "list[Any]" = []
LATE_CALLS: "deque[Any]" = deque(maxlen=1000)
USAGE_LOGS: "WeakKeyDictionary[Any, Any]" = WeakKeyDictionary()
UNTOLD: "set[Any]" = set()
SWITCHES = Switches()

_forkable: "WeakSet[Forkable]" = WeakSet()
_open_files: "WeakSet[OpenFile]" = WeakSet()
_closed_files: "list[OpenFile]" = []
_endings: "list[Callable[[], object]]" = []


def replace(kind: "Any", name: str, make: "Callable[[Any], Any]") -> None:
    """Replace a function of another package's class, once in this process.

    `make` gets the function and returns the one that takes its place.
    """
    if (kind, name) in REPLACED:
        return
    with LOCK:
        if (kind, name) not in REPLACED:
            setattr(kind, name, make(getattr(kind, name)))
            REPLACED.add((kind, name))


def put_back(kind: "Any", name: str) -> None:
    """Put back a function that was replaced by one that `wraps` it."""
    with LOCK:
        if (kind, name) in REPLACED:
            REPLACED.discard((kind, name))
            setattr(kind, name, vars(kind)[name].__wrapped__)


def at_end(function: "Callable[[], object]") -> None:
    """Have a function called at the end of the process, before those that were given earlier.

    All of them are called after the calls that are open then were abandoned.
    """
    atexit.register(_end)  # again: a process that multiprocessing forks has none of its parent's
    _endings.append(function)


def tell_at_end(one: "Any") -> None:
    """Have an object's `flush` called at the end of the process, while it is in `UNTOLD`."""
    if one not in UNTOLD:
        atexit.unregister(_end)  # once: this may be done at every call
        atexit.register(_end)
        UNTOLD.add(one)


def _end() -> None:
    for _ in range(len(OPEN_CALLS)):
        with suppress(Exception):  # a daemon thread settles it, and may begin others
            OPEN_CALLS.pop().abandon()
    told: "set[Any]" = set()
    while rest := UNTOLD - told:  # what could not be told is there again
        one = rest.pop()
        told.add(one)
        with suppress(Exception):  # the others are still to be told
            one.flush()
    while _endings:
        with suppress(Exception):  # the others are still to be called
            _endings.pop()()


def begin_again_in_children(one: "Forkable") -> None:
    """Have an object begin again in every process that is forked from this one."""
    _forkable.add(one)


def close_before_forks(one: "OpenFile") -> None:
    """Close a file before every fork of this process; waits for a fork under way."""
    with LOCK:
        _open_files.add(one)


def _before_fork() -> None:
    LOCK.acquire()
    for one in list(_open_files):
        one.before_fork()
        _closed_files.append(one)


def _after_fork(in_child: bool) -> None:
    while _closed_files:
        _closed_files.pop().after_fork(in_child)
    if in_child:
        TOOL_GROUPS.clear()
        HELPERS.clear()
        UNTOLD.clear()
        LATE_CALLS.clear()
        for one in (*OPEN_CALLS, *_forkable):
            one.begin_again()
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _after_fork(False),
        after_in_child=lambda: _after_fork(True),
    )
