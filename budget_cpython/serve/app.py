"""The HTTP service as an ASGI app: authorize a request, call the ledger, answer."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from budget_core.ledger.errors import BudgetExceededError, LedgerError
from budget_core.ledger.limit import check_path
from budget_cpython.serve.addresses import is_cross_site, names_loopback
from budget_cpython.serve.devices import HEADER, DeviceReports, parse_report
from budget_cpython.serve.error_responses import Refusal, error_response, ledger_error_response
from budget_cpython.serve.keys import EVERY_ACCOUNT, Key, KeyFile, KeyFileError
from budget_cpython.serve.openapi import describe
from budget_cpython.serve.operations import OPERATIONS, Call, Operation, url_of
from budget_cpython.serve.request_body import parse_object, read_body_first
from budget_cpython.serve.served_ledger import ServedLedger

log = logging.getLogger("microbudget.serve")


def make_app(
    ledger: Any,
    keys: KeyFile | None = None,
    *,
    expire_every: float = 10,
    engine_timeout: float = 10,
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Return an ASGI app that serves a ledger, sync or async, and does not close it.

    A sync ledger is called in threads, so it must be thread-safe, as those of `budget_cpython` are.
    Without `keys` every request may do everything, but only requests that name this machine are
    answered, and none from another site's page in a browser. Every `expire_every` seconds expired
    holds are counted as spent. An engine that does not answer within `engine_timeout` seconds is
    unavailable. `clock` returns the Unix seconds at which devices are noted.
    """
    service = _Service(ServedLedger(ledger, engine_timeout), keys, clock)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(service.ledger.expire_forever(expire_every))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    app = Starlette(
        routes=service.routes(),
        exception_handlers={HTTPException: _http_error, Exception: _internal_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.add_middleware(read_body_first)
    return app


class _Service:
    def __init__(
        self, ledger: ServedLedger, keys: KeyFile | None, clock: Callable[[], float]
    ) -> None:
        self.ledger = ledger
        self.devices = DeviceReports(ledger, clock)
        self._keys = keys
        self._description = json.dumps(describe(keys is not None)).encode()

    def routes(self) -> list[Route]:
        routes = [
            Route("/healthz", self._health),
            Route("/readyz", self._readiness),
            Route("/openapi.json", self._openapi),
        ]
        for name, operation in OPERATIONS.items():
            url = url_of(name) + ("/{path:path}" if operation.on_account else "")
            routes.append(Route(url, partial(self._answer, operation), methods=[operation.method]))
        return routes

    async def _health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _readiness(self, request: Request) -> Response:
        ready = await self.ledger.is_ready()
        return JSONResponse({"status": "ok" if ready else "unavailable"}, 200 if ready else 503)

    async def _openapi(self, request: Request) -> Response:
        return Response(self._description, media_type="application/json")

    async def _answer(self, operation: Operation, request: Request) -> Response:
        key = report = None
        try:
            key = self._authenticate(request)
            path = _check_path(operation, request)
            if key is not None:
                _check_right(operation, key, path)
            fields = await _read_fields(operation, request)
            header = request.headers.get("idempotency-key")
            if HEADER in request.headers and path and (key is None or "reserve" in key.rights):
                report = parse_report(request.headers[HEADER])
            call = Call(self.ledger, key, path, fields, self.devices, header)
            work, waits = operation.handler(call), fields.get("wait")
            answer = await (_while_connected(request, work) if waits else work)
            if report is not None:
                await self.devices.note(path, report)
            return JSONResponse(answer)
        except Refusal as refusal:
            return refusal.response()
        except LedgerError as error:
            if report is not None and isinstance(error, BudgetExceededError):
                await self.devices.note(path, report)
            response = ledger_error_response(error, key)
            if response.status_code >= 500:
                log.warning("%s: %s", type(error).__name__, error)
            return response
        except ValueError as error:
            return error_response(422, str(error))

    def _authenticate(self, request: Request) -> Key | None:
        """Return the request's key, or `None` for a service without keys; `Refusal`."""
        if self._keys is None:
            if not names_loopback(request.headers.get("host", "")):
                raise Refusal(403, "without keys, only localhost and loopback addresses are served")
            if is_cross_site(request.headers):
                raise Refusal(403, "without keys, pages of other sites are not served")
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            key = self._keys.check(token.strip()) if scheme.lower() == "bearer" else None
        except KeyFileError as error:
            log.error("%s", error)
            raise Refusal(503, "the keys cannot be read now", Retry_After="1") from error
        if key is None:
            text = "send a known key, as in Authorization: Bearer KEY"
            raise Refusal(401, text, WWW_Authenticate="Bearer")
        return key


def _check_path(operation: Operation, request: Request) -> str:
    if "\n" in request.scope["path"]:  # at the end a route's pattern ignores one
        raise ValueError("a URL's path must have no line ends")
    return check_path(request.path_params["path"]) if operation.on_account else ""


def _check_right(operation: Operation, key: Key, path: str) -> None:
    if operation.right not in key.rights:
        raise Refusal(403, f"key {key.name!r} lacks the right {operation.right!r}")
    if operation.on_account and not key.covers(path):
        raise Refusal(403, f"key {key.name!r} is for {key.account!r} and the accounts below it")
    if operation.right == "limits" and not operation.on_account and key.account != EVERY_ACCOUNT:
        raise Refusal(403, f"key {key.name!r} is for {key.account!r}, not for every account")


async def _read_fields(operation: Operation, request: Request) -> dict[str, Any]:
    """Return the fields of the query or body; `ValueError` for an unknown or missing one."""
    known = operation.required + operation.optional
    fields: dict[str, Any] = {}
    if operation.method == "GET":
        pairs = request.query_params.multi_items()
        fields = dict(pairs)
        if len(fields) < len(pairs):
            raise ValueError("a parameter is given twice")
    elif known:
        fields = parse_object(request.headers.get("content-type", ""), await request.body())
    for name in fields:
        if name not in known:
            text = f"the known ones are {', '.join(known)}" if known else "there are none"
            raise ValueError(f"unknown field {name[:64]!r}: {text}")
    for name in operation.required:
        if name not in fields:
            raise ValueError(f"the field {name!r} is missing")
    return fields


async def _while_connected(request: Request, work: Awaitable[Any]) -> Any:
    """Return a result; if the client disconnects first, cancel the work."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Refusal(400, "the client is gone")
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.wait({task, gone})


async def _http_error(request: Request, error: Any) -> Response:
    return error_response(error.status_code, error.detail, error.headers)


async def _internal_error(request: Request, error: Exception) -> Response:
    return error_response(500, "an error of the service; its log says more")
