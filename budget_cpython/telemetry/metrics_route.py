"""The route `/metrics` of a server."""

import asyncio
import logging
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from budget_core.errors import BudgetError
from budget_core.ledger.hold import Balance
from budget_cpython.telemetry.observing import tell_late
from budget_cpython.telemetry.prometheus import PrometheusObserver
from budget_cpython.web.bearer import authenticate, check_right
from budget_cpython.web.devices import ROOT
from budget_cpython.web.error_responses import may_see
from budget_cpython.web.keys import KeyFile
from budget_cpython.web.served_ledger import ServedLedger

PATH = "/metrics"
log = logging.getLogger("microbudget.serve")


def metrics_route(
    observer: PrometheusObserver, ledger: ServedLedger | None, keys: KeyFile | None
) -> Route:
    """Return the route, which keys with the right to read see: what is below their account.

    Calls by model are seen by keys of every account alone, and where there are no keys.
    """

    async def answer(request: Request) -> Response:
        try:
            key = await authenticate(keys, request.headers)
            check_right(key, "read")
        except HTTPException as error:
            return Response(error.detail + "\n", error.status_code, error.headers, "text/plain")
        account = "" if key is None else key.path
        rows = [] if ledger is None else await _balances(ledger, account)
        tell_late()
        accept = request.headers.get("accept", "")
        page = partial(observer.page, rows, partial(may_see, key), not account, accept)
        text, kind = await asyncio.to_thread(page)
        return Response(text, headers={"Content-Type": kind})

    return Route(PATH, answer)


async def _balances(ledger: ServedLedger, account: str) -> list[Balance] | None:
    """Return the balances of an account and those below it; `None` if the ledger fails."""
    try:
        rows: list[Balance] = await ledger.call("balances", account)
    except BudgetError as error:
        log.warning("the balances for %s were not read: %s", PATH, error)
        return None
    return [row for row in rows if not row.account.startswith(ROOT)]
