"""What a ledger behind a server tells operators: what its engines have in common."""

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from budget_core.ledger.hold import Balance
from budget_cpython.ledger.journal import (
    KEEP_EVENTS_S,
    KEEP_USAGE_S,
    MOST_EVENTS,
    HourOfUsage,
    LedgerEvent,
    OpenHold,
    checked_events,
    checked_usage,
    sum_of_usage,
)
from budget_cpython.ledger.process import PROCESS
from budget_cpython.ledger.selection import check_selected

_MANY = 10**9  # rows that an answer never has


class RemoteJournal:
    """The operations of an `AsyncJournal`, each done by `_ask`."""

    process = PROCESS

    async def _ask(self, operation: str, path: str, **arguments: Any) -> Any:
        raise NotImplementedError

    def _new_id(self) -> str:
        """Return an id that no other process gives."""
        raise NotImplementedError

    async def balances(self, path: str = "") -> list[Balance]:
        """Return the balance of each account's own limits, by path, axis and window."""
        rows = await self._ask("balances", check_selected(path))
        return [Balance.read(*row) for row in sorted(rows, key=itemgetter(0, 1, 2))]

    async def open_holds(self, path: str = "", most: int = 1000) -> list[OpenHold]:
        """Return holds that are not settled, the oldest first."""
        rows = await self._ask("open_holds", check_selected(path), most=_bounded(most))
        return [
            OpenHold(account, id_, amounts, taken // 1000, -(-expires // 1000))
            for account, id_, amounts, taken, expires in rows
        ]

    async def note(self, events: Sequence[LedgerEvent]) -> list[int]:
        """Append events in one step; return their numbers, 0 for a `name` that is known already."""
        rows = [
            (one.kind, one.account, one.name, json.dumps(one.details))
            for one in checked_events(events)
        ]
        if not rows:
            return []
        kept = {"most_events": MOST_EVENTS, "keep_s": KEEP_EVENTS_S}
        numbers: list[int] = await self._ask("note", "", id=self._new_id(), events=rows, **kept)
        return numbers

    async def events(
        self, path: str = "", kinds: Sequence[str] = (), after: int | None = None, most: int = 1000
    ) -> list[LedgerEvent]:
        """Return the last events of these kinds, or the first ones after a number."""
        chosen = {"kinds": list(kinds), "after": after, "most": _bounded(most)}
        rows = await self._ask("events", check_selected(path), **chosen)
        return [
            LedgerEvent(kind, account, json.loads(details), name, at, number)
            for number, at, kind, account, name, details in rows
        ]

    async def add_usage(self, rows: Sequence[HourOfUsage]) -> None:
        """Add usage of calls to the sums of its hour, path, model and tool."""
        sums = sum_of_usage(checked_usage(rows))
        if sums:
            kept = {"newest": sums[-1].hour, "keep_s": KEEP_USAGE_S}
            given = [list(row) for row in sums]
            await self._ask("add_usage", "", id=self._new_id(), usage=given, **kept)

    async def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        """Return the usage of hours that began at `since` or later, in Unix seconds."""
        rows = await self._ask("usage", check_selected(path), since=since)
        return sum_of_usage(
            HourOfUsage(hour, account, model, tool, {axis: amount})
            for hour, account, model, tool, axis, amount in rows
        )


def _bounded(most: int) -> int:
    return max(0, min(most, _MANY))
