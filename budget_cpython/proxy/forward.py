"""Pass one request on to its upstream, and the answer back."""

import asyncio
import logging
import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.exceptions import HTTPException

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_cpython.adapters.provider_errors import EXTENSION
from budget_cpython.adapters.refusals import refusal
from budget_cpython.context.deadline import Deadline
from budget_cpython.context.process_state import OBSERVERS
from budget_cpython.proxy.accounts import ProxyAccount
from budget_cpython.proxy.body_helper import HelperLostError
from budget_cpython.proxy.exchange import Exchange
from budget_cpython.proxy.headers import Headers, to_client
from budget_cpython.vendors.body import LARGE
from budget_cpython.vendors.format import WireFormat
from budget_cpython.vendors.registry import find_format

log = logging.getLogger("microbudget.proxy")
_MODELS = re.compile(r".*/models(/[^:]*)?")


@dataclass
class Forward:
    """How a request is sent on, on an `account`; `format` is `None` if it is free and unknown."""

    method: str
    url: httpx.URL
    headers: Headers
    client: httpx.AsyncClient
    timeouts: dict[str, Any]
    account: ProxyAccount
    deadline: Deadline | None
    read_on_s: float
    format: WireFormat | None = field(init=False)

    def __post_init__(self) -> None:
        """Find the format; an answer that is read comes as it is, not compressed."""
        path = self.url.raw_path.partition(b"?")[0].decode("ascii")
        self.format = find_format(self.method, path, at_vendor=True)
        lower = find_format(self.method, path.lower())
        if lower is not None and lower.known and type(lower) is not type(self.format):
            raise HTTPException(400, f"write the path in lower case, as in {path.lower()}")
        if self.format is not None:
            self.headers = [row for row in self.headers if row[0] != b"accept-encoding"]
            self.headers.append((b"accept-encoding", b"identity"))

    @property
    def is_known(self) -> bool:
        """Whether it is a call of a known format, lists models, or counts tokens."""
        if self.format is not None:
            return self.format.known
        return self.method == "GET" and _MODELS.fullmatch(self.url.path) is not None

    async def run(self, exchange: Exchange, body: bytes) -> None:
        """Send it and pass the answer on; what goes wrong is answered, or breaks the answer off."""
        try:
            await self._run_in_time(exchange, body)
        except (TimeoutError, DeadlineExceeded):
            if not exchange.left:
                text = "the deadline passed before the answer was there"
                await exchange.refuse(HTTPException(504, text))
        except BudgetError as error:
            answer = refusal(exchange.vendor, error)
            await exchange.answer(answer.status, answer.headers, answer.body)
        except httpx.HTTPError as error:
            log.info("%s: %s: %s", self.url.host, type(error).__name__, error)
            text = f"the upstream did not answer ({type(error).__name__})"
            await exchange.refuse(HTTPException(502, text))
        except HelperLostError as error:
            log.warning("%s: %r", error, error.__cause__)
            await exchange.refuse(HTTPException(503, str(error)))

    async def _run_in_time(self, exchange: Exchange, body: bytes) -> None:
        terms = self.account.terms()
        request = httpx.Request(
            self.method,
            self.url,
            headers=self.headers,
            content=body or None,
            extensions={"timeout": self.timeouts, EXTENSION: terms},
        )
        left = None if self.deadline is None else self.deadline.remaining_seconds()

        def read_on_s() -> float:  # none for what costs nothing
            return self.read_on_s if terms.observer.may_be_sent else 0

        async with asyncio.timeout(left) as limit:
            watch = asyncio.create_task(exchange.watch(limit, read_on_s))
            try:
                with nullcontext() if self.deadline is None else self.deadline.as_current():
                    await self._send(exchange, request)
            finally:
                watch.cancel()

    async def _send(self, exchange: Exchange, request: httpx.Request) -> None:
        held = self.format is not None and self.format.held
        if held and len(request.content) > LARGE:
            try:
                await self.account.refuse_spent()  # before it is parsed
            except BudgetError as error:
                _count(error)
                raise
        answer = await self.client.send(request, stream=True)
        try:
            headers = to_client(answer.headers.raw)
            await exchange.relay(answer.status_code, headers, answer.stream)
        finally:
            await answer.aclose()


def _count(error: BudgetError) -> None:
    """Tell the observers of a refusal, if there are any."""
    if OBSERVERS:
        from budget_cpython.telemetry.observer import refusal_of
        from budget_cpython.telemetry.observing import tell_refused

        tell_refused(refusal_of(error))
