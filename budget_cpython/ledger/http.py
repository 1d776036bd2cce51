"""Use a ledger behind `microbudget serve`, from threads or from asyncio."""

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any
from urllib.parse import quote

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.outbox import finish
from budget_cpython.ledger.batching import ThreadBatchQueue
from budget_cpython.ledger.http_batches import Answer, BatchedRequest
from budget_cpython.ledger.http_journal import MAX_ANSWER, HttpJournal
from budget_cpython.ledger.passthrough import BlockingLedger

AsyncHttpLedger = HttpJournal


@dataclass(frozen=True)
class FleetDevice:
    """A device that reports to a service.

    - `account`: what it draws on; `left` is the least that is left there of each limited axis.
    - `seen_at`: its last contact, in Unix seconds, to a minute.
    - `spent`, `cap`, `resets_at`: its own day, as it was reported: tokens, their limit, `None` for
      unlimited, and the Unix second at which it ends, 0 if that is not known.
    """

    account: str
    seen_at: int
    spent: int
    cap: int | None
    resets_at: int
    left: dict[str, int]


class HttpLedger(BlockingLedger):
    """A ledger at a URL, for any number of threads; `budget_core.Ledger` says what methods do.

    `key` is what `microbudget serve key add` printed; it is in no message, log or repr. `timeout_s`
    bounds every wait for the network, `max_response_bytes` every answer. `tls` is a context for
    https. Connections are kept and reused; there are as many as threads ask at once. A request
    whose answer was lost is sent once more and counts once.
    """

    WAITS_INSIDE = True

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout_s: float = 10,
        max_response_bytes: int = MAX_ANSWER,
        tls: Any = None,
    ) -> None:
        ledger: Any = _PooledHttpLedger(url, key, timeout_s, max_response_bytes, tls)
        super().__init__(ledger)

    def __repr__(self) -> str:
        return f"HttpLedger({self._ledger.url!r})"  # type: ignore[attr-defined]

    def report(self, spent: int, cap: int | None, resets_at: int = 0) -> None:
        """Have every further request report what a device's own day has used, in tokens."""
        self._ledger.report(spent, cap, resets_at)  # type: ignore[attr-defined]

    def devices(self) -> list[FleetDevice]:
        """Return the devices that the key is for and that reported, by account."""
        found: list[FleetDevice] = self._do("devices")
        return found


class _PooledHttpLedger(HttpJournal):
    """The same requests over connections that block: nothing that is awaited ever waits."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._idle: deque[HTTPConnection] = deque()
        self._pid = os.getpid()
        self._queue = ThreadBatchQueue(self._send_now, most=self._most)

    async def close(self) -> None:
        self._drop()

    async def devices(self) -> list[FleetDevice]:
        found: list[FleetDevice] = []
        after = ""
        while True:
            page, more = await self._ask(_devices, "GET", "devices?after=" + quote(after, safe=""))
            found += page
            if not more or not page or page[-1].account <= after:
                return found
            after = page[-1].account

    async def _together(self, asked: BatchedRequest) -> Answer:
        return self._queue.ask(asked)

    def _send_now(self, asked: Sequence[BatchedRequest]) -> list[Answer | Exception]:
        found: list[Answer | Exception] = finish(self._answers_to(asked))
        return found

    async def _exchange(
        self, method: str, path: str, body: bytes, patience_s: float
    ) -> tuple[int, bytes]:
        sent: bool | None = False
        connection = self._connection()
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(self._endpoint.timeout_s + patience_s)
            sent = None
            pairs = dict(line.split(": ", 1) for line in self._endpoint.headers)
            connection.request(method, path, body or None, pairs)
            answer = self._read(connection.getresponse())
        except (OSError, ValueError, HTTPException) as error:
            connection.close()
            self._drop()  # after a restart of the service all of them are dead
            text = f"the ledger: connection trouble: {str(error) or type(error).__name__}"
            raise LedgerUnavailableError(text, error, sent) from error
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer

    def _connection(self) -> HTTPConnection:
        if self._pid != os.getpid():  # answers to a forked process are not for this one
            self._idle, self._pid = deque(), os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            to = self._endpoint
        if to.secure:
            return HTTPSConnection(to.host, to.port, timeout=to.timeout_s, context=to.tls)
        return HTTPConnection(to.host, to.port, timeout=to.timeout_s)

    def _read(self, response: HTTPResponse) -> tuple[int, bytes]:
        with response:
            framed = response.chunked or response.length is not None
            most = self._endpoint.max_bytes
            data = response.read(most + 1)
            if len(data) > most:
                raise HTTPException(f"the answer is larger than {most} bytes")
            if not framed or response.length:
                raise HTTPException("the answer broke off")
            return response.status, data

    def _drop(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _devices(said: Any) -> tuple[list[FleetDevice], bool]:
    return [FleetDevice(**row) for row in said["devices"]], said["next"] is not None
