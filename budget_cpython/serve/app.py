"""The HTTP service as an ASGI app: its routes, and what runs beside them."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Scope

from budget_cpython.serve.batch import BatchEndpoint
from budget_cpython.serve.endpoint import OperationEndpoint
from budget_cpython.serve.openapi import document
from budget_cpython.serve.operations import SERVED, ServedOperation
from budget_cpython.serve.service import LedgerService
from budget_cpython.web.devices import DeviceReports
from budget_cpython.web.error_responses import error_reply
from budget_cpython.web.keys import KeyFile
from budget_cpython.web.request_body import BATCH_URL, read_body_first
from budget_cpython.web.served_ledger import ServedLedger, probes


def make_app(
    ledger: Any,
    keys: KeyFile | None = None,
    *,
    expire_every: float = 10,
    engine_timeout: float = 10,
    clock: Callable[[], float] = time.time,
    metrics: int | None = None,
    page_secret: bytes | None = None,
) -> Starlette:
    """Return an ASGI app that serves a ledger, sync or async, and does not close it.

    A sync ledger is also called in threads, so it must be thread-safe, as those of ours are.
    Without `keys` every request may do everything, but only requests that name this machine are
    answered, and none from another site's page in a browser. Every `expire_every` seconds expired
    holds are counted as spent. An engine that does not answer within `engine_timeout` seconds is
    unavailable. `clock` returns the Unix seconds at which devices are noted, and of sessions.
    Browsers find the operators' page at `/`; `page_secret` is the one of all processes that serve
    it, for the sessions of readers. With `metrics` there is `/metrics` for Prometheus, which shows
    at most so many accounts.
    """
    service = _Service(ServedLedger(ledger, engine_timeout), keys, clock, metrics, page_secret)

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
        exception_handlers={HTTPException: _error, Exception: _error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.add_middleware(read_body_first, find=service.find)
    return app


class _Service:
    def __init__(
        self,
        ledger: ServedLedger,
        keys: KeyFile | None,
        clock: Callable[[], float],
        metrics: int | None,
        page_secret: bytes | None,
    ) -> None:
        self.ledger = ledger
        self._metrics: list[Route] = []
        observer: Any = None
        if metrics is not None:
            from budget_cpython.telemetry.metrics_route import metrics_route
            from budget_cpython.telemetry.prometheus import PrometheusObserver

            observer = PrometheusObserver(metrics)
            self._metrics.append(metrics_route(observer, ledger, keys))
        self._service = LedgerService(ledger, keys, DeviceReports(ledger, clock), observer)
        self._page = _page_of(self.ledger, keys, clock, page_secret)
        self._on_accounts: dict[tuple[str, str], OperationEndpoint] = {}  # by method and noun
        self._has_keys = keys is not None

    def find(self, scope: Scope) -> OperationEndpoint | None:
        """Return the endpoint of an operation on an account, without a look at all routes."""
        noun, slash, path = scope["path"].removeprefix("/v1/").partition("/")
        endpoint = self._on_accounts.get((scope["method"], noun)) if slash else None
        if endpoint is None or "\n" in path or scope.get("root_path"):
            return None
        scope["path_params"] = {"path": path}
        return endpoint

    def routes(self) -> list[BaseRoute]:
        methods: dict[str, dict[str, ServedOperation]] = {}  # of a URL: `Allow` names all of them
        for operation in SERVED.values():
            for url in operation.urls("/{path:path}"):
                methods.setdefault(url, {})[operation.method] = operation
        endpoints = {url: OperationEndpoint(self._service, found) for url, found in methods.items()}
        for operation in SERVED.values():
            if operation.on_account:
                endpoint = endpoints[operation.urls("/{path:path}")[0]]
                self._on_accounts[operation.method, operation.noun] = endpoint
        return [
            *(Route(url, one, methods=list(methods[url])) for url, one in endpoints.items()),
            Route(BATCH_URL, BatchEndpoint(self._service), methods=["POST"]),
            Route("/openapi.json", self._openapi),
            *probes(self.ledger),
            *self._page,
            *self._metrics,
        ]

    async def _openapi(self, request: Request) -> Response:
        return Response(document(self._has_keys), media_type="application/json")


def _page_of(
    ledger: ServedLedger,
    keys: KeyFile | None,
    clock: Callable[[], float],
    secret: bytes | None,
) -> list[BaseRoute]:
    """Return the routes of the operators' page."""
    from budget_cpython.page.app import page_routes  # which itself imports this room
    from budget_cpython.page.doors import KeyDoor, OpenDoor
    from budget_cpython.page.watch import LedgerWatch

    door = OpenDoor(secret=secret) if keys is None else KeyDoor(keys, secret, clock)
    return page_routes(LedgerWatch(ledger, clock=clock), door)


async def _error(request: Request, error: Exception) -> Any:
    return error_reply(error)
