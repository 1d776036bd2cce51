"""The core's ledger for any number of threads, with windows of any time zone."""

import os
from functools import lru_cache
from threading import Lock

from budget_core.ledger import memory
from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.hold import Balance
from budget_cpython.ledger.process import PROCESS
from budget_cpython.ledger.refusals import RefusalLog
from budget_cpython.ledger.selection import check_selected, is_below
from budget_cpython.ledger.usage_log import flush_usage
from budget_cpython.ledger.windows import parse_window
from budget_cpython.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core.ledger.hold import Hold
    from budget_core.ledger.limit import Limit
    from budget_core.ledger.window import Window
    from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent, OpenHold
    from budget_cpython.ledger.memory_journal import MemoryJournal

_FEW_HOLDS = 64


class Ledger(memory.Ledger):
    """Budgets by path in this process's memory, counted right by any number of threads.

    `set_limits` gives an account limits; `reserve` holds what a call may use on it and on all above
    it, or raises `BudgetExceededError`; `commit` records what was used in the place of the hold,
    and `release` gives it back. The default clock is `budget_cpython.WALL`. `made_in` is the id of
    the process: a forked one has a copy, which counts for itself. `Journal` describes what it tells
    operators.
    """

    process = PROCESS
    NEVER_WAITS = True  # for a file or a server: an event loop may call it

    def __init__(
        self,
        clock: "Callable[[], float]" = WALL,
        *,
        windows: "Callable[[Any], Window]" = parse_window,
        axes: "Sequence[str] | None" = None,
        max_accounts: int = 1_000_000,
        max_holds: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        super().__init__(
            clock,
            Lock(),
            windows=lru_cache(64)(windows),  # limits share windows
            axes=axes,
            max_accounts=max_accounts,
            max_holds=max_holds,
            keep=keep,
        )
        self.made_in = os.getpid()
        self._notes: MemoryJournal | None = None
        self._refusals = RefusalLog(self)
        self._taken_ms: dict[str, int] = {}  # when live holds were taken, and some others

    def set_limits(self, path: str, limits: "Sequence[Limit]") -> None:
        """Give an account these limits and no others, and note what changed."""
        from budget_cpython.ledger.limit_changes import change_of, changed_by

        before = self.limits(path)
        super().set_limits(path, limits)
        self.note(change_of(path, before, self.limits(path), changed_by()))

    def balances(self, path: str = "") -> "list[Balance]":
        """Return the balance of each account's own limits, by path, axis and window."""
        check_selected(path)
        with self._lock:
            now = self._now()
            self._expire(now)
            found = []
            for account in sorted(self._accounts):
                if is_below(account, path):
                    along = self._limits_along(account, now)
                    found += [one.bucket for one in along if one.account == account]
            return [Balance.of(bucket, *bucket.totals()) for bucket in found]

    def open_holds(self, path: str = "", most: int = 1000) -> "list[OpenHold]":
        """Return holds that are not settled, the oldest first."""
        from budget_cpython.ledger.journal import OpenHold

        check_selected(path)
        with self._lock:
            self._expire(self._now())
            taken = self._taken_ms
            found = [one for one in self._live.items() if is_below(one[1].path, path)]
            found.sort(key=lambda one: taken.get(one[0], 0))
            return [
                OpenHold(
                    hold.path,
                    hold.id,
                    dict(hold.amounts),
                    taken.get(name, 0) // 1000,
                    hold.expires_at or 0,
                )
                for name, hold in found[: max(0, most)]
            ]

    def note(self, events: "Sequence[LedgerEvent]") -> "list[int]":
        """Append events in one step; return their numbers, 0 for a `name` that is known already."""
        with self._lock:
            return self._journal.note(events, self._now() // 1000)

    def events(
        self,
        path: str = "",
        kinds: "Sequence[str]" = (),
        after: int | None = None,
        most: int = 1000,
    ) -> "list[LedgerEvent]":
        """Return the last events of these kinds, or the first ones after a number."""
        with self._lock:
            return self._journal.events(path, kinds, after, most)

    def add_usage(self, rows: "Sequence[HourOfUsage]") -> None:
        """Add usage of calls to the sums of its hour, path, model and tool."""
        with self._lock:
            self._journal.add_usage(rows, self._now() // 1000)

    def usage(self, path: str = "", since: int = 0) -> "list[HourOfUsage]":
        """Return the usage of hours that began at `since` or later, in Unix seconds."""
        flush_usage(self)
        with self._lock:
            return self._journal.usage(path, since)

    def expire(self) -> int:
        """Count expired holds as spent; return how many there were."""
        self._refusals.flush()
        return super().expire()

    def close(self) -> None:
        """Note what was refused: this ledger ends with its process."""
        self._refusals.flush()

    @property
    def _journal(self) -> "MemoryJournal":
        if self._notes is None:
            from budget_cpython.ledger.memory_journal import MemoryJournal  # with typing

            self._notes = MemoryJournal()
        return self._notes

    def _take(self, path: str, *rest: "Any") -> "Hold":
        try:
            return super()._take(path, *rest)
        except BudgetExceededError as error:
            self._refusals.add(path, error)
            raise

    def _keep(self, name: str, hold: "Hold", now: int, expires: int) -> None:
        super()._keep(name, hold, now, expires)
        self._taken_ms[name] = now
        if len(self._taken_ms) > 2 * len(self._live) + _FEW_HOLDS:
            self._taken_ms = {one: self._taken_ms.get(one, 0) for one in self._live}
