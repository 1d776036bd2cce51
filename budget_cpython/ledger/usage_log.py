"""The usage of calls by model and tool, added up for their ledger."""

import time
from threading import Lock, RLock, Thread
from weakref import ref

from budget_core.ledger.errors import LedgerError
from budget_core.ledger.hold import origin
from budget_cpython.context.process_state import (
    LOCK,
    UNTOLD,
    USAGE_LOGS,
    begin_again_in_children,
    tell_at_end,
)
from budget_cpython.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_cpython.ledger.journal import HourOfUsage

    Usage = dict[tuple[int, str, str, str], dict[str, int]]  # by hour, path, model and tool

EVERY_S = 10  # at most so often a ledger is told
MOST = 1000  # rows that wait: hours, paths, models and tools
_LONGEST = 200  # characters of a name


class UsageLog:
    """The usage of one ledger's accounts by this process that the ledger was not told yet.

    A ledger that `TAKES_USAGE` writes it with the next settlement, which follows at once: nothing
    is told by a timer. Another is told at most every ten seconds, in a thread, or in a task if it
    is awaited, so that no call waits; one in memory asks for it. What it cannot take is told later;
    once 1,000 rows wait, others are dropped. The first error is logged. `wall` returns Unix
    seconds, `now` seconds that never go back.
    """

    def __init__(
        self,
        ledger: "Any",
        wall: "Callable[[], float]" = WALL,
        now: "Callable[[], float]" = time.monotonic,
    ) -> None:
        from inspect import iscoroutinefunction

        self._ledger = ref(ledger)
        self._wall = wall
        self._now = now
        self._is_awaited = iscoroutinefunction(ledger.add_usage)
        self._is_shared = getattr(ledger, "IS_SHARED", True)
        self._is_timed = self._is_shared and not getattr(ledger, "TAKES_USAGE", False)
        self._has_failed = False
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Know no usage, in a process that was forked."""
        self._lock = RLock()  # a forgotten call is collected anywhere, here too
        self._telling = Lock()
        self._rows: Usage = {}
        self._due = self._now() + EVERY_S
        self._task: Any = None
        self._kept: Any = None  # the ledger, while it is to be told something

    def add(
        self, path: str, model: str, tool: str, amounts: "dict[str, int]", may_tell: bool = True
    ) -> None:
        """Add amounts to those of this hour, and begin to tell the ledger if that is due."""
        second = int(self._wall())
        if not second:
            return  # the date is not known
        place = (second - second % 3600, path, _name(model), tool and _name(tool))
        with self._lock:
            self._add(place, amounts)
            if self._is_timed:
                now = self._now()
                is_due = may_tell and now >= self._due
                if is_due:
                    self._due = now + EVERY_S
            else:
                is_due = may_tell and len(self._rows) > MOST // 2
            if self._is_shared and self._kept is None:
                self._wait_for_end()
        if is_due:
            self._begin_to_tell()

    def take(self) -> "Usage":
        """Return the usage that the ledger lacks; the caller adds it now."""
        with self._lock:
            used, self._rows, self._kept = self._rows, {}, None
            UNTOLD.discard(self)
        return used

    def keep(self, used: "Usage", error: Exception) -> None:
        """Keep usage for a later attempt, unless the ledger may have it."""
        if not self._has_failed:
            self._has_failed = True
            _log_failure("warning", error)
        if isinstance(error, LedgerError) and getattr(error, "applied", False) is False:
            self.put_back(used)

    def put_back(self, used: "Usage") -> None:
        """Tell the ledger later what it was certainly not told."""
        with self._lock:
            for place in used:
                self._add(place, used[place])
            self._wait_for_end()

    def flush(self) -> None:
        """Tell a ledger that blocks what it was not told yet."""
        with self._telling:
            ledger, used = self._ledger(), self.take()
            try:
                if used and ledger is not None and not self._is_awaited:
                    ledger.add_usage(_rows(used))
            except Exception as error:  # noqa: BLE001 - only the attribution is late
                self.keep(used, error)

    async def flush_awaited(self) -> None:
        """Tell a ledger that is awaited what it was not told yet."""
        ledger, used = self._ledger(), self.take()
        try:
            if used and ledger is not None:
                await ledger.add_usage(_rows(used))
        except Exception as error:  # noqa: BLE001 - only the attribution is late
            self.keep(used, error)

    async def finish(self) -> None:
        """Tell a ledger that is awaited all, before it is closed: also what a task tells it now."""
        task = self._task
        if task is not None and not task.done():
            import asyncio

            if task.get_loop() is asyncio.get_running_loop():
                await asyncio.wait([task])
        await self.flush_awaited()

    def _wait_for_end(self) -> None:
        """Have the ledger told at the end of the process at the latest."""
        if self._kept is None:
            self._kept = self._ledger()
            tell_at_end(self)

    def _begin_to_tell(self) -> None:
        if not self._is_shared:
            self.flush()
        elif self._is_awaited:
            import asyncio

            telling = self.flush_awaited()
            try:
                self._task = asyncio.create_task(telling)
            except RuntimeError:  # no loop runs: the next call's does
                telling.close()
        else:
            try:
                Thread(target=self.flush, name="microbudget-usage", daemon=True).start()
            except RuntimeError:
                pass  # the interpreter ends, and tells the ledger

    def _add(self, place: "Any", amounts: "dict[str, int]") -> None:
        total = self._rows.get(place)
        if total is None:
            if len(self._rows) >= MOST:
                return
            total = self._rows[place] = {}
        for axis in amounts:
            total[axis] = total.get(axis, 0) + amounts[axis]


def _rows(used: "Usage") -> "list[HourOfUsage]":
    from budget_cpython.ledger.journal import HourOfUsage

    return [HourOfUsage(*place, amounts) for place, amounts in used.items()]


def usage_log_of(ledger: "Any") -> UsageLog | None:
    """Return the log of a ledger, or of the one that it is a view of; `None` if it takes none."""
    ledger = origin(ledger)
    found: UsageLog | None = USAGE_LOGS.get(ledger)
    if found is None and hasattr(type(ledger), "add_usage"):
        with LOCK:
            found = USAGE_LOGS.setdefault(ledger, UsageLog(ledger))
    return found


def note_call(held: "Any", outcome: "Any") -> None:
    """Note the charge of a model's call."""
    model = getattr(outcome.response, "model", None) or held.model
    _note(held, str(model), "", held.charged, not outcome.closing)


def note_tool_call(held: "Any", name: str, may_tell: bool) -> None:
    """Note the charge of a tool's call."""
    _note(held, "", name, held.amounts, may_tell)


def flush_usage(ledger: "Any") -> None:
    """Tell a ledger that blocks, before it is closed, what calls used."""
    found = USAGE_LOGS.get(ledger)
    if found is not None:
        found.flush()


async def flush_usage_awaited(ledger: "Any") -> None:
    """Tell a ledger that is awaited, before it is closed, what calls used."""
    found = USAGE_LOGS.get(ledger)
    if found is not None:
        await found.finish()


def _note(held: "Any", model: str, tool: str, amounts: "Any", may_tell: bool) -> None:
    try:
        found = usage_log_of(held.account.ledger)
        if found is not None and amounts:
            found.add(held.account.path, model, tool, amounts, may_tell)
    except Exception as error:  # noqa: BLE001 - the call was made, and is counted
        _log_failure("debug", error)


def _log_failure(level: str, error: Exception) -> None:
    from budget_core.log import log  # with logging: loaded where there is something to log

    log(level, f"usage by model could not be noted: {error}")


def _name(name: str) -> str:
    if name.isprintable() and len(name) <= _LONGEST:
        return name
    from budget_core.log import printable

    return printable(name)[:_LONGEST]
