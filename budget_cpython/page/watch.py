"""Read a ledger for all readers of the page together."""
# mypy: disable-error-code="no-any-return"

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

from budget_core.ledger.errors import UnknownAccountError
from budget_core.ledger.hold import Balance
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage, LedgerEvent, OpenHold
from budget_cpython.ledger.selection import is_below
from budget_cpython.ops.account_tree import AccountStatus, accounts_of, by_urgency
from budget_cpython.page.sentences import CHANGES
from budget_cpython.web.devices import ROOT
from budget_cpython.web.served_ledger import ServedLedger

EVERY_S = 2.0
REFUSALS = ("refused", "observed")
MOST_EVENTS = 200
MOST_HOLDS = 1000
_USAGE_EVERY_S = 15.0
_MOST_READINGS = 128
_AT_ONCE = 2  # readings of a ledger
_SHARE = 5  # a reading is kept for so many times as long as it took


def first_hour(now: int, hours: int) -> int:
    """Return when the first of the last hours began, in Unix seconds; the running one counts."""
    return (now // HOUR_S - hours + 1) * HOUR_S


class Snapshot:
    """The state of some accounts of a ledger at a moment, `at` in Unix seconds."""

    def __init__(
        self,
        at: int,
        balances: Sequence[Balance],
        holds: Sequence[OpenHold],
        refusals: Sequence[LedgerEvent],
        changes: Sequence[LedgerEvent],
    ) -> None:
        self.at = at
        self.balances = balances
        self.holds = holds
        self.refusals = refusals
        self.changes = changes
        self._below: dict[str, Snapshot] = {}

    @cached_property
    def accounts(self) -> dict[str, AccountStatus]:
        """The accounts by path, each with its limits."""
        return accounts_of(self.balances, self.at)

    @cached_property
    def ranked(self) -> list[AccountStatus]:
        """The accounts, those nearest their end first."""
        return by_urgency(self.accounts)

    @cached_property
    def digest(self) -> str:
        """A text that changes with anything that is shown."""
        found = hashlib.sha256()
        for row in self.balances:
            found.update(repr([getattr(row, name) for name in row.__slots__]).encode())
        for hold in self.holds:
            found.update(hold.id.encode() + b"\0")
        for event in (*self.refusals[-1:], *self.changes[-1:]):
            found.update(repr(event.number).encode() + b"\0")
        return found.hexdigest()

    def below(self, path: str) -> "Snapshot":
        """Return the part of it on an account and all below it; an empty path is all."""
        if not path:
            return self
        if path not in self._below:
            self._below[path] = Snapshot(
                self.at,
                [row for row in self.balances if is_below(row.account, path)],
                [hold for hold in self.holds if is_below(hold.path, path)],
                [event for event in self.refusals if is_below(event.account, path)],
                [event for event in self.changes if is_below(event.account, path)],
            )
        return self._below[path]


class LedgerWatch:
    """Reads a ledger at most every `every_s` seconds, and twice at once, for all who ask.

    A ledger that is slow is asked less often: what it answered is kept for five times as long as
    that took. `path` is the account that is shown with all below it; an empty one shows all.
    `clock` returns Unix seconds, `timer` the seconds of a clock that never goes back.
    """

    def __init__(
        self,
        ledger: ServedLedger,
        path: str = "",
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ledger = ledger
        self.every_s = every_s
        self._path = path
        self._clock = clock
        self._timer = timer
        self._readings: OrderedDict[Any, _Reading] = OrderedDict()

    def now(self) -> int:
        """Return the Unix second."""
        return int(self._clock())

    async def snapshot(self, path: str = "") -> Snapshot:
        """Return the state of an account and all below it now; `LedgerError`."""
        return (await self._read("snapshot", self.every_s, self._take)).below(path)

    async def details(self, whole: Snapshot, path: str) -> Snapshot:
        """Return the part of a snapshot on an account, read from the ledger where `whole` is cut.

        Raises `LedgerError`.
        """
        part = whole.below(path)
        if len(whole.refusals) + len(whole.changes) >= MOST_EVENTS:
            refusals, changes = [await self._recent(path, kinds) for kinds in (REFUSALS, CHANGES)]
            part = Snapshot(part.at, part.balances, part.holds, refusals, changes)
        return part

    async def usage(self, path: str, hours: int) -> list[HourOfUsage]:
        """Return the usage of the last hours, the running one included; `LedgerError`."""
        since = first_hour(self.now(), hours)
        ask = partial(self.ledger.call, "usage", path, since)
        return await self._read(("usage", path, since), _USAGE_EVERY_S, ask)

    async def _recent(self, path: str, kinds: tuple[str, ...]) -> list[LedgerEvent]:
        ask = partial(self._events, path, kinds)
        return await self._read(("events", path, kinds), self.every_s, ask)

    async def chain(self, path: str) -> list[Balance]:
        """Return the balances of an account and of those above it; `LedgerError`."""

        async def ask() -> list[Balance]:
            try:
                return await self.ledger.call("balance", path)
            except UnknownAccountError:
                return []

        return await self._read(("balance", path), self.every_s, ask)

    def forget(self) -> None:
        """Read again for the next one who asks: something was changed here."""
        self._readings.clear()

    async def _take(self) -> Snapshot:
        balances = await self.ledger.call("balances", self._path)
        balances = [row for row in balances if not row.account.startswith(ROOT)]
        holds = await self.ledger.call("open_holds", self._path, MOST_HOLDS)
        refusals = await self._events(self._path, REFUSALS)
        changes = await self._events(self._path, CHANGES)
        taken = Snapshot(self.now(), balances, holds, refusals, changes)
        await asyncio.to_thread(getattr, taken, "ranked")  # slow where there are thousands
        return taken

    async def _events(self, path: str, kinds: tuple[str, ...]) -> list[LedgerEvent]:
        return await self.ledger.call("events", path, kinds, None, MOST_EVENTS)

    async def _read(self, name: Any, every_s: float, ask: Callable[[], Any]) -> Any:
        while (reading := self._readings.get(name)) is None or reading.is_old(every_s):
            running = [one.task for one in self._readings.values() if not one.task.done()]
            if len(running) >= _AT_ONCE:
                await asyncio.wait(running, return_when="FIRST_COMPLETED")
                continue
            reading = self._readings[name] = _Reading(self._timer, ask)
            while len(self._readings) > _MOST_READINGS:
                self._readings.popitem(last=False)
            break
        return await asyncio.shield(reading.task)


class _Reading:
    """One question to a ledger, which all who ask meanwhile share."""

    def __init__(self, timer: Callable[[], float], ask: Callable[[], Any]) -> None:
        self._timer = timer
        self._began = self._ended = timer()
        self.task = asyncio.ensure_future(self._run(ask))
        self.task.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _run(self, ask: Callable[[], Any]) -> Any:
        try:
            return await ask()
        finally:
            self._ended = self._timer()

    def is_old(self, every_s: float) -> bool:
        """Tell whether its answer is too old to be given again; one that failed is at once."""
        if not self.task.done():
            return False
        took = self._ended - self._began
        failed = self.task.cancelled() or self.task.exception() is not None
        return failed or self._timer() - self._ended >= max(every_s, _SHARE * took)
