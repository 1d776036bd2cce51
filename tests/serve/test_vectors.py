"""A ledger over HTTP answers as the ledger does."""

import asyncio
from typing import Any

import httpx
import pytest

from budget_core.ledger.http_client import HttpLedger
from budget_core.ledger.records import TTL, Hold
from budget_cpython.ledger import Ledger
from budget_cpython.serve import make_app
from tests_micro.ledger.cases import cases, run_async

CASES = list(cases())


class OverHttp(HttpLedger):
    """The client, with an app in this process at its other end.

    In the vectors an id that the ledger made begins with `#`. Over HTTP it is a key like any other,
    so this class adds the `#` to answers and removes it from requests.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__("http://localhost")
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(make_app(ledger)), base_url="http://localhost"
        )

    async def reserve(
        self,
        path: str,
        amounts: Any,
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        return marked(key, await super().reserve(path, amounts, key, ttl, wait))

    async def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
        return marked(key, await super().charge(path, amounts, key))

    async def _exchange(
        self, method: str, path: str, body: bytes, patience_s: float
    ) -> tuple[int, bytes]:
        sent, url = body.replace(b'"#', b'"'), path.replace("%23", "")
        headers = {"Content-Type": "application/json"}
        answer = await self._client.request(method, url, content=sent, headers=headers)
        return answer.status_code, answer.content


def marked(key: str | None, hold: Hold) -> Hold:
    if key is None:
        hold.id = "#" + hold.id
    return hold


def make_ledger(clock: Any, **options: Any) -> OverHttp:
    return OverHttp(Ledger(clock, **options))


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_a_ledger_over_http_answers_as_the_ledger_does(case: dict[str, Any]) -> None:
    asyncio.run(run_async(case, make_ledger))
