"""What a ledger behind `microbudget serve` tells operators."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from budget_core.ledger.hold import Balance
from budget_core.ledger.http_client import DEVICE, HttpLedger, _balances
from budget_cpython.ledger.batching import BatchQueue
from budget_cpython.ledger.http_batches import (
    Answer,
    BatchedRequest,
    answers_to,
    asked_of,
    most_within,
)
from budget_cpython.ledger.journal import (
    HourOfUsage,
    LedgerEvent,
    OpenHold,
    checked_events,
    checked_usage,
    sum_of_usage,
)
from budget_cpython.ledger.process import PROCESS
from budget_cpython.ledger.selection import check_selected
from budget_cpython.ledger.usage_log import flush_usage_awaited

MAX_BODY = 12_000  # bytes of rows: the service reads 16 KB
MOST_ROWS = 1000  # of a page
MAX_ANSWER = 4_194_304  # bytes, by default


class HttpJournal(HttpLedger):
    """A ledger at a URL for asyncio, with what it tells operators.

    Reservations and settlements of tasks that come while one is on its way go together in the next
    request. A key reads what it is for. Many rows take several requests: `note` is one step only up
    to some 12 KB, and of each account by itself. `most` is at most 1,000 for holds, and for events
    without `after`.
    """

    process = PROCESS

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout_s: float = 10,
        max_response_bytes: int = MAX_ANSWER,
        tls: Any = None,
    ) -> None:
        super().__init__(url, key, timeout_s, max_response_bytes, tls)
        self._start = f"{self._endpoint.path}/v1/"
        self._most = most_within(max_response_bytes)
        self._batches = BatchQueue(self._answers_to, most=self._most)

    async def close(self) -> None:
        """Tell the service what calls used: a connection ends with its request."""
        await flush_usage_awaited(self)
        await super().close()

    async def balances(self, path: str = "") -> list[Balance]:
        """Return the balance of each account's own limits, by path, axis and window."""
        return await self._pages(_balances, "balances", path, "after", "")

    async def open_holds(self, path: str = "", most: int = 1000) -> list[OpenHold]:
        """Return holds that are not settled, the oldest first."""
        target = _target("holds", path, most=max(0, most))
        found: list[OpenHold] = await self._ask(_of("holds", OpenHold), "GET", target)
        return found

    async def note(self, events: Sequence[LedgerEvent]) -> list[int]:
        """Append events; return their numbers, 0 for a `name` that is known already."""
        numbers: list[int] = []
        for account, same in groupby(checked_events(events), lambda event: event.account):
            rows = [{"kind": one.kind, "details": one.details, "name": one.name} for one in same]
            for part in _parts(rows):
                target, fields = _target("events", account), {"events": part}
                numbers += await self._ask(lambda said: said["numbers"], "POST", target, fields)
        return numbers

    async def events(
        self, path: str = "", kinds: Sequence[str] = (), after: int | None = None, most: int = 1000
    ) -> list[LedgerEvent]:
        """Return the last events of these kinds, or the first ones after a number."""
        found: list[LedgerEvent] = []
        while True:
            asked = min(MOST_ROWS, max(0, most - len(found)))
            given = {"kinds": ",".join(kinds), "after": after, "most": asked}
            page: list[LedgerEvent] = await self._ask(
                _of("events", LedgerEvent), "GET", _target("events", path, **given)
            )
            found += page
            if after is None or len(page) < MOST_ROWS:
                return found
            after = page[-1].number

    async def add_usage(self, rows: Sequence[HourOfUsage]) -> None:
        """Add usage of calls to the sums of its hour, path, model and tool.

        A request whose answer is lost is not repeated: it would count twice.
        """
        by_path = sorted(sum_of_usage(checked_usage(rows)), key=lambda row: row.path)
        for path, same in groupby(by_path, lambda row: row.path):
            names = ("hour", "model", "tool", "amounts")
            for part in _parts({name: getattr(row, name) for name in names} for row in same):
                target, fields = _target("usage", path), {"rows": part}
                await self._ask(lambda said: said["added"], "POST", target, fields, True)

    async def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        """Return the usage of hours that began at `since` or later, in Unix seconds."""
        return await self._pages(_of("usage", HourOfUsage), "usage", path, "since", since)

    async def _answer_to(self, method: str, path: str, body: bytes, patience_s: float) -> Answer:
        asked = None
        if not (patience_s or self._endpoint.headers[-1].startswith(DEVICE)):
            asked = asked_of(self._start, method, path, body)
        if asked is None:
            return await super()._answer_to(method, path, body, patience_s)
        return await self._together(asked)

    async def _together(self, asked: BatchedRequest) -> Answer:
        """Return a request's answer; it may go together with those of other tasks of the loop."""
        return await self._batches.ask(asked)

    async def _answers_to(self, asked: Sequence[BatchedRequest]) -> list[Answer | Exception]:
        return await answers_to(asked, self._start, super()._answer_to)

    async def _pages(
        self, read: Callable[[Any], list[Any]], name: str, path: str, field: str, place: Any
    ) -> list[Any]:
        """Return the rows of all pages, each of which begins at a place."""

        def page(said: Any) -> tuple[list[Any], Any]:
            return read(said), said["next"]

        found: list[Any] = []
        while True:
            rows, following = await self._ask(page, "GET", _target(name, path, **{field: place}))
            found += rows
            if following is None or following <= place:
                return found
            place = following


def _target(name: str, path: str, **fields: Any) -> str:
    query = urlencode({name: value for name, value in fields.items() if value not in (None, "")})
    place = f"{name}/{path}" if check_selected(path) else name
    return f"{place}?{query}" if query else place


def _of(name: str, kind: Any) -> Callable[[Any], list[Any]]:
    """Return what reads the rows of an answer as tuples with names."""
    return lambda said: [kind(**row) for row in said[name]]


def _parts(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield rows in parts that fit into a request each."""
    part: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        bytes_of_row = len(json.dumps(row)) + 2
        if part and size + bytes_of_row > MAX_BODY:
            yield part
            part, size = [], 0
        part.append(row)
        size += bytes_of_row
    if part:
        yield part
