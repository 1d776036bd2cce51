"""The HTTP service as an ASGI app: who is let in, what is asked, what is answered."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from budget_core.ledger.errors import LedgerError
from budget_core.ledger.limit import check_path
from budget_cpython.serve.body import read_object
from budget_cpython.serve.engine import Engine
from budget_cpython.serve.keys import EVERY_ACCOUNT, Key, KeyFile, KeyFileError
from budget_cpython.serve.local import is_of_another_site, names_loopback
from budget_cpython.serve.openapi import describe
from budget_cpython.serve.operations import OPERATIONS, Asked, Operation, place_of
from budget_cpython.serve.refusals import Refusal, refuse_with, say_ledger_error
from budget_cpython.serve.unread import ReadOrClosed

log = logging.getLogger("budget_cpython.serve")


def make_app(
    ledger: Any,
    keys: KeyFile | None = None,
    *,
    expire_every: float = 10,
    engine_timeout: float = 10,
    body_timeout: float = 10,
) -> Starlette:
    """Return an ASGI app that serves a ledger, which it does not close.

    `ledger` is any, sync or async; a sync one is asked in threads, for which it has to be safe, as
    all of `budget_cpython`'s are. Without `keys` whoever reaches the app may do everything, and
    only requests for this machine by name are answered: other sites' pages in a browser here are
    not. All times are in seconds: holds that are over are counted as spent `expire_every` so many;
    an engine that has not answered within `engine_timeout` is unavailable; a request has to be
    there within `body_timeout`.
    """
    service = _Service(Engine(ledger, engine_timeout), keys, body_timeout)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(service.engine.expire_for_ever(expire_every))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    app = Starlette(
        routes=service.routes(),
        exception_handlers={HTTPException: _say_error, Exception: _say_error},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.add_middleware(ReadOrClosed, timeout_s=body_timeout)
    return app


class _Service:
    def __init__(self, engine: Engine, keys: KeyFile | None, body_timeout: float) -> None:
        self.engine = engine
        self._keys = keys
        self._body_timeout = body_timeout

    def routes(self) -> list[Route]:
        routes = [
            Route("/healthz", self._live),
            Route("/readyz", self._ready),
            Route("/openapi.json", self._openapi),
        ]
        places: dict[str, dict[str, Operation]] = {}
        for name, operation in OPERATIONS.items():
            url = place_of(name) + ("/{path:path}" if operation.on_account else "")
            places.setdefault(url, {})[operation.method] = operation
        for url, by_method in places.items():
            routes.append(Route(url, partial(self._answer, by_method), methods=list(by_method)))
        return routes

    async def _live(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        ready = await self.engine.is_ready()
        return JSONResponse({"status": "ok" if ready else "unavailable"}, 200 if ready else 503)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(describe(self._keys is not None))

    async def _answer(self, by_method: dict[str, Operation], request: Request) -> Response:
        operation = by_method["GET" if request.method == "HEAD" else request.method]
        key = None
        try:
            key = self._let_in(request)
            asked = await self._understand(operation, key, request)
            return JSONResponse(await operation.act(asked))
        except Refusal as refusal:
            return refusal.response()
        except LedgerError as error:
            response = say_ledger_error(error, key)
            if response.status_code >= 500:
                log.warning("%s: %s", type(error).__name__, error)
            return response
        except ValueError as error:
            return refuse_with(422, str(error))

    def _let_in(self, request: Request) -> Key | None:
        if self._keys is None:
            if not names_loopback(request.headers.get("host", "")):
                raise Refusal(403, "without keys, only localhost and loopback addresses are served")
            if is_of_another_site(request.headers):
                raise Refusal(403, "without keys, no other site's pages are served")
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            key = self._keys.check(token.strip()) if scheme.lower() == "bearer" else None
        except KeyFileError as error:
            log.error("%s", error)
            raise Refusal(503, "the keys cannot be read now", Retry_After="1") from error
        if key is None:
            text = "give a key that is known, as in Authorization: Bearer KEY"
            raise Refusal(401, text, WWW_Authenticate="Bearer")
        return key

    async def _understand(self, operation: Operation, key: Key | None, request: Request) -> Asked:
        if "\n" in request.scope["path"]:  # a route's pattern takes one at the end for nothing
            raise ValueError("a URL's path must have no line ends")
        path = check_path(request.path_params["path"]) if operation.on_account else ""
        if key is not None:
            _check_right(operation, key, path)
        fields: dict[str, Any]
        if operation.method == "GET":
            pairs = request.query_params.multi_items()
            fields = dict(pairs)
            if len(fields) < len(pairs):
                raise ValueError("a parameter is given twice")
        elif operation.required or operation.optional:
            fields = await read_object(request, self._body_timeout)
        else:
            fields = {}
        _check_names(operation, fields)
        return Asked(self.engine, key, path, fields, request.headers.get("idempotency-key"))


def _check_right(operation: Operation, key: Key, path: str) -> None:
    if operation.right not in key.rights:
        raise Refusal(403, f"key {key.name!r} has no right to {operation.right}")
    if operation.on_account and not key.covers(path):
        raise Refusal(403, f"key {key.name!r} is for {key.account!r} and what is below it")
    if operation.right == "limits" and not operation.on_account and key.account != EVERY_ACCOUNT:
        raise Refusal(403, f"key {key.name!r} is for {key.account!r}, not for every account")


def _check_names(operation: Operation, fields: dict[str, Any]) -> None:
    known = operation.required + operation.optional
    for name in fields:
        if name not in known:
            text = ", ".join(known) or "none"
            raise ValueError(f"unknown field {name[:64]!r}: those known are {text}")
    for name in operation.required:
        if name not in fields:
            raise ValueError(f"the field {name!r} is missing")


async def _say_error(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return refuse_with(error.status_code, error.detail, error.headers)
    close = {"Connection": "close"}  # how much of the request was read is not known
    return refuse_with(500, "an error of the service; its log says more", close)
