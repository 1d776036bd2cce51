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
from starlette.routing import BaseRoute, Route

from budget_core.ledger.checks import check_path
from budget_core.ledger.errors import BudgetExceededError, LedgerError
from budget_cpython.serve.bearer import authenticate, check_right
from budget_cpython.serve.devices import HEADER, DeviceReports, parse_report
from budget_cpython.serve.error_responses import error_response, ledger_error_response
from budget_cpython.serve.keys import Key, KeyFile
from budget_cpython.serve.openapi import describe
from budget_cpython.serve.operations import OPERATIONS, AuthorizedRequest, Operation, urls_of
from budget_cpython.serve.request_body import parse_object, read_body_first
from budget_cpython.serve.served_ledger import ServedLedger, probes

log = logging.getLogger("microbudget.serve")


def make_app(
    ledger: Any,
    keys: KeyFile | None = None,
    *,
    expire_every: float = 10,
    engine_timeout: float = 10,
    clock: Callable[[], float] = time.time,
    metrics: int | None = None,
) -> Starlette:
    """Return an ASGI app that serves a ledger, sync or async, and does not close it.

    A sync ledger is called in threads, so it must be thread-safe, as those of `budget_cpython` are.
    Without `keys` every request may do everything, but only requests that name this machine are
    answered, and none from another site's page in a browser. Every `expire_every` seconds expired
    holds are counted as spent. An engine that does not answer within `engine_timeout` seconds is
    unavailable. `clock` returns the Unix seconds at which devices are noted, and of sessions.
    Browsers find the operators' page at `/`. With `metrics` there is `/metrics` for
    Prometheus, which shows at most so many accounts.
    """
    service = _Service(ServedLedger(ledger, engine_timeout), keys, clock, metrics)

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
        exception_handlers={
            HTTPException: _http_error,
            ValueError: _invalid,
            Exception: _internal_error,
        },
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.add_middleware(read_body_first)
    return app


class _Service:
    def __init__(
        self,
        ledger: ServedLedger,
        keys: KeyFile | None,
        clock: Callable[[], float],
        metrics: int | None,
    ) -> None:
        self.ledger = ledger
        self.devices = DeviceReports(ledger, clock)
        self._keys = keys
        self._notes_keys = True
        self._metrics: list[Route] = []
        self._observer: Any = None
        if metrics is not None:
            from budget_cpython.telemetry.metrics_route import metrics_route
            from budget_cpython.telemetry.prometheus import PrometheusObserver

            self._observer = PrometheusObserver(metrics)
            self._metrics.append(metrics_route(self._observer, ledger, keys))
        self._page = _page_of(self.ledger, keys, clock)
        self._description = json.dumps(describe(keys is not None)).encode()

    def routes(self) -> list[BaseRoute]:
        routes = [*probes(self.ledger), Route("/openapi.json", self._openapi), *self._page]
        routes += self._metrics
        methods: dict[str, dict[str, Operation]] = {}  # of each URL: `Allow` names all of them
        for name, operation in OPERATIONS.items():
            for url in urls_of(name, operation, "/{path:path}"):
                methods.setdefault(url, {})[operation.method] = operation
        for url, found in methods.items():
            routes.append(Route(url, partial(self._choose, found), methods=list(found)))
        return routes

    async def _choose(self, methods: dict[str, Operation], request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        return await self._answer(methods[method], request)

    def _count(self, error: LedgerError) -> None:
        """Count a refusal for `/metrics`."""
        if self._observer is not None:
            from budget_cpython.telemetry.observer import refusal_of

            refusal = refusal_of(error)
            if refusal is not None:
                self._observer.refused(refusal)

    async def _openapi(self, request: Request) -> Response:
        return Response(self._description, media_type="application/json")

    async def _answer(self, operation: Operation, request: Request) -> Response:
        key = authenticate(self._keys, request.headers)
        await self._note_keys()
        path = _check_path(operation, request)
        if key is not None:
            _check_right(operation, key, path)
        fields = await _read_fields(operation, request)
        report = None
        if HEADER in request.headers and path and (key is None or "reserve" in key.rights):
            report = parse_report(request.headers[HEADER])
        header = request.headers.get("idempotency-key")
        work = operation.handler(
            AuthorizedRequest(self.ledger, key, path, fields, self.devices, header)
        )
        noted = True
        try:
            found = await (_while_connected(request, work) if fields.get("wait") else work)
            response: Response = JSONResponse(found)
            self._notes_keys = True
        except LedgerError as error:
            noted = isinstance(error, BudgetExceededError)
            self._count(error)
            response = ledger_error_response(error, key)
            if response.status_code >= 500:
                log.warning("%s: %s", type(error).__name__, error)
        if report is not None and noted:
            await self.devices.note(path, report)
        return response

    async def _note_keys(self) -> None:
        """Note the keys that were added and revoked since the last request, once for all.

        What cannot be noted waits until the ledger has answered a request.
        """
        if self._keys is not None and self._notes_keys and (changes := self._keys.take_changes()):
            try:
                await self.ledger.call("note", changes)
            except Exception as error:  # noqa: BLE001 - the request is answered all the same
                self._notes_keys = False
                self._keys.put_back(changes)
                log.warning("a change of keys could not be noted yet: %s", error)


def _page_of(
    ledger: ServedLedger, keys: KeyFile | None, clock: Callable[[], float]
) -> list[BaseRoute]:
    """Return the routes of the operators' page."""
    from budget_cpython.page.app import page_routes  # which itself imports this room
    from budget_cpython.page.doors import KeyDoor, OpenDoor
    from budget_cpython.page.watch import LedgerWatch

    door = OpenDoor() if keys is None else KeyDoor(keys, clock=clock)
    return page_routes(LedgerWatch(ledger, clock=clock), door)


def _check_path(operation: Operation, request: Request) -> str:
    if "\n" in request.scope["path"]:  # at the end a route's pattern ignores one
        raise ValueError("a URL's path must have no line ends")
    is_on_account = operation.on_account and "path" in request.path_params
    return check_path(request.path_params["path"]) if is_on_account else ""


def _check_right(operation: Operation, key: Key, path: str) -> None:
    reach = f"key {key.name!r} is for {key.account!r}"
    check_right(key, operation.right)
    if path and not key.covers(path):
        raise HTTPException(403, f"{reach} and the accounts below it")
    if operation.right == "limits" and not path and key.path:
        raise HTTPException(403, f"{reach}, not for every account")


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
            raise HTTPException(400, "the client is gone")
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.wait({task, gone})


async def _http_error(request: Request, error: Any) -> Response:
    return error_response(error)


async def _invalid(request: Request, error: Exception) -> Response:
    return error_response(HTTPException(422, str(error)))


async def _internal_error(request: Request, error: Exception) -> Response:
    return error_response(HTTPException(500, "an error of the service; its log says more"))
