"""The ASGI app of each URL of an operation: read the request, have it done, answer."""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from budget_core.ledger.errors import BudgetExceededError
from budget_cpython.serve.field_types import Json
from budget_cpython.serve.messages import NoFields, ReserveRequest
from budget_cpython.serve.operations import AuthorizedRequest, ServedOperation
from budget_cpython.serve.reading import read
from budget_cpython.serve.service import LedgerService, authorize
from budget_cpython.web.devices import HEADER, parse_report
from budget_cpython.web.error_responses import JsonReply
from budget_cpython.web.keys import Key
from budget_cpython.web.request_body import check_type, headers_of, parse_object

Report = dict[str, int | None]


class OperationEndpoint:
    """The operations at one URL, by their methods."""

    def __init__(self, service: LedgerService, methods: dict[str, ServedOperation]) -> None:
        self._service = service
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose body was read already."""
        method = scope["method"]
        operation = self._methods["GET" if method == "HEAD" else method]
        reply = await self._reply(operation, scope, receive)
        await reply(scope, receive, send)

    async def _reply(self, operation: ServedOperation, scope: Scope, receive: Receive) -> JsonReply:
        headers = headers_of(scope)
        key: Key | None = None
        report: Report | None = None
        path = ""
        try:
            key = await self._service.enter(headers)
            path = authorize(operation, key, _path_of(operation, scope))
            asked = await _read(operation, headers, scope, receive)
            if HEADER in headers and path and (key is None or "reserve" in key.rights):
                report = parse_report(headers[HEADER])
            ledger, devices = self._service.ledger, self._service.devices
            header = headers.get("idempotency-key")
            call = AuthorizedRequest(ledger, key, path, devices, header)
            work = operation.handler(call, asked)
            if isinstance(asked, ReserveRequest) and asked.wait:
                work = _while_connected(receive, work)
            reply = JsonReply(200, await self._service.done(work))
        except Exception as error:  # noqa: BLE001 - each becomes an answer
            reply = self._service.refused(error, key)
            if not isinstance(error, BudgetExceededError):
                return reply
        if report is not None:
            await self._service.devices.note(path, report)
        return reply


def _path_of(operation: ServedOperation, scope: Scope) -> str | None:
    """Return the account's path in a URL, `None` for an operation on all."""
    if "\n" in scope["path"]:  # at the end a route's pattern ignores one
        raise ValueError("a URL's path must have no line ends")
    path: str | None = scope["path_params"].get("path")
    return path if operation.on_account else None


async def _read(
    operation: ServedOperation, headers: Mapping[str, str], scope: Scope, receive: Receive
) -> Struct:
    """Return the fields of the query or body; `ValueError` for a wrong one."""
    fields: Json = {}
    if operation.method == "GET":
        pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        fields = dict(pairs)
        if len(fields) < len(pairs):
            raise ValueError("a parameter is given twice")
    elif operation.request is not NoFields:
        check_type(headers)
        fields = parse_object((await receive())["body"])
    return read(operation.request, fields)


async def _while_connected(receive: Receive, work: Awaitable[Any]) -> Any:
    """Return a result; if the client disconnects first, cancel the work."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HTTPException(400, "the client is gone")
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.wait({task, gone})
