"""The page as an ASGI app: let a reader in, read the ledger, answer with HTML."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route

from budget_core.errors import BudgetError
from budget_core.ledger.checks import chain, check_path
from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.journal import HourOfUsage
from budget_cpython.page import limit_form
from budget_cpython.page.doors import SESSION_S, Door, PageReader, cookie_name
from budget_cpython.page.forms import check_token, place_of, read_form, set_cookie
from budget_cpython.page.rendering import HEADERS, render, static_file
from budget_cpython.page.views import one_account, overview
from budget_cpython.page.watch import LedgerWatch, Snapshot
from budget_cpython.web.connections import ENDS_AT_STOP
from budget_cpython.web.request_body import read_body_first

FOLDER = "microbudget/"  # of the page below the service's own URL
PERIODS = {"24h": 24, "7d": 7 * 24, "30d": 30 * 24}
MOST_STREAMS = 200  # of updates, of all readers
_COMMENT_EVERY = 10  # silent rounds, after which a reader that has gone is noticed
log = logging.getLogger("microbudget.serve")
Handler = Callable[[Request, PageReader], Coroutine[Any, Any, Response]]


def page_routes(watch: LedgerWatch, door: Door) -> list[BaseRoute]:
    """Return the routes that show the page, for an app at whose `/` it is found."""

    async def front(request: Request) -> Response:
        return RedirectResponse(place_of(request, FOLDER), 307)

    return [
        Route("/", front),
        Route(f"/{FOLDER[:-1]}", front),
        Mount(f"/{FOLDER[:-1]}", make_page(watch, door)),
    ]


def make_page(watch: LedgerWatch, door: Door) -> Starlette:
    """Return an ASGI app, to be mounted, that shows a ledger to those whom the door lets in."""
    page = _Page(watch, door)
    app = Starlette(
        routes=[
            Route("/", page.guarded(page.overview)),
            Route("/account/{path:path}", page.guarded(page.account)),
            Route("/limits/{path:path}", page.guarded(page.change_limits), methods=["POST"]),
            Route("/updates", page.guarded(page.updates)),
            Route("/sign-in", page.sign_in, methods=["POST"]),
            Route("/sign-out", page.guarded(page.sign_out), methods=["POST"]),
            Route("/static/{name}", page.static),
        ],
        exception_handlers={
            HTTPException: _http_error,
            BudgetError: _ledger_error,
            Exception: _internal_error,
        },
    )
    app.router.redirect_slashes = False
    app.add_middleware(read_body_first)
    return app


class _Page:
    def __init__(self, watch: LedgerWatch, door: Door) -> None:
        self._watch = watch
        self._door = door
        self._streams = 0

    def guarded(self, handler: Handler) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that only readers get to; others are asked for their key."""

        async def answer(request: Request) -> Response:
            reader = self._door.reader(request)
            if reader is None:
                return _render(request, None, "sign_in.html", 401, refused=False)
            return await handler(request, reader)

        return answer

    async def overview(self, request: Request, reader: PageReader) -> Response:
        asked = dict(request.query_params)
        snapshot = await self._watch.snapshot(reader.path)
        period, hours = _period(asked)
        rows = await self._usage(reader.path, hours)

        def show() -> Response:
            found = overview(snapshot, reader, asked, rows, hours)
            more: dict[str, Any] = {"period": period, "periods": list(PERIODS), "now": snapshot.at}
            more |= {"seen": snapshot.digest, "wanted": _wanted(reader, asked, snapshot)}
            return _render(request, reader, "overview.html", **found, **more)

        return await asyncio.to_thread(show)

    async def account(self, request: Request, reader: PageReader) -> Response:
        path = _path(request, reader)
        balances = await self._watch.chain(path)
        shown = await self._watch.snapshot(reader.path)
        snapshot = await self._watch.details(shown, path)
        period, hours = _period(dict(request.query_params))
        rows = await self._usage(path, hours)
        limits = await self._watch.ledger.call("limits", path)

        def show() -> Response:
            found = one_account(snapshot, reader, path, balances, rows, hours)
            more: dict[str, Any] = {"period": period, "periods": list(PERIODS), "path": path}
            more |= {"seen": shown.digest, "now": shown.at, "crumbs": _crumbs(reader, path)}
            line, kept = limit_form.line_of(limits), limit_form.counted_only(limits)
            form: dict[str, Any] = {"line": line, "kept": kept}
            return _render(request, reader, "account.html", **found, **more, **form)

        return await asyncio.to_thread(show)

    async def change_limits(self, request: Request, reader: PageReader) -> Response:
        """Show what a change of limits would do; with `apply` do it, if nothing came between."""
        path = _path(request, reader)
        form = await read_form(request)
        if not reader.may_change:
            raise HTTPException(403, "Limits are changed by keys with the right `limits`.")
        check_token(form, reader)
        line, ledger = form.get("limits", ""), self._watch.ledger
        if "apply" not in form:
            found = await limit_form.propose(ledger, path, line)
        else:
            stamp = form.get("stamp", "")
            undone = await limit_form.apply(ledger, path, line, stamp, reader.name)
            if undone is None:
                self._watch.forget()
                return RedirectResponse(place_of(request, f"account/{path}"), 303, HEADERS)
            found = undone
        status = 422 if found.problem else 409 if found.is_late else 200
        return _render(request, reader, "change.html", status, found=found)

    async def updates(self, request: Request, reader: PageReader) -> Response:
        """Tell a browser when what its reader sees has changed, as server-sent events."""
        if self._streams >= MOST_STREAMS:
            raise HTTPException(503, "Too many readers are waiting for updates.")
        request.scope[ENDS_AT_STOP] = True
        headers = {**HEADERS, "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        stream = self._changes(request, reader)
        return StreamingResponse(stream, 200, headers, "text/event-stream")

    async def _changes(self, request: Request, reader: PageReader) -> AsyncIterator[str]:
        self._streams += 1
        try:
            last = request.query_params.get("seen", "")
            yield "retry: 3000\n\n"
            silent = 0
            while self._door.reader(request) is not None:  # until its session ends
                try:
                    seen = (await self._watch.snapshot(reader.path)).digest
                except BudgetError as error:
                    log.warning("the page cannot read the ledger: %s", error)
                    seen = "unavailable"
                if seen != last:
                    last, silent = seen, 0
                    yield f"event: change\ndata: {seen}\n\n"
                elif silent >= _COMMENT_EVERY:
                    silent = 0
                    yield ": nothing new\n\n"
                silent += 1
                await asyncio.sleep(self._watch.every_s)
            yield "event: end\ndata: signed out\n\n"
        finally:
            self._streams -= 1

    async def sign_in(self, request: Request) -> Response:
        key = (await read_form(request)).get("key", "")
        session = self._door.sign_in(request, key)
        if session is None:
            return _render(request, None, "sign_in.html", 403, refused=True)
        answer = RedirectResponse(place_of(request), 303, HEADERS)
        set_cookie(request, answer, session, SESSION_S)
        return answer

    async def sign_out(self, request: Request, reader: PageReader) -> Response:
        check_token(await read_form(request), reader)
        answer = RedirectResponse(place_of(request), 303, HEADERS)
        set_cookie(request, answer, "", 0)
        return answer

    async def static(self, request: Request) -> Response:
        found = static_file(request.path_params["name"])
        if found is None:
            raise HTTPException(404, "There is no such file.")
        return found

    async def _usage(self, path: str, hours: int) -> list[HourOfUsage] | None:
        try:
            return await self._watch.usage(path, hours)
        except LedgerUnavailableError as error:  # the rest may be shown all the same
            log.warning("the page cannot read the usage: %s", error)
            return None


def _render(
    request: Request, reader: PageReader | None, template: str, status: int = 200, **values: Any
) -> Response:
    base = place_of(request)
    signs_out = reader is not None and cookie_name(request) in request.cookies
    return render(template, status, base=base, reader=reader, signs_out=signs_out, **values)


def _path(request: Request, reader: PageReader) -> str:
    """Return the account that a URL names; `HTTPException` for one that the reader may not see."""
    try:
        path = check_path(request.path_params["path"])
    except ValueError as error:
        raise HTTPException(404, f"There is no such account: {error}.") from error
    if not reader.sees(path):
        raise HTTPException(403, f"This page shows {reader.path} and the accounts below it.")
    return path


def _crumbs(reader: PageReader, path: str) -> list[str]:
    """Return the accounts above one that the reader sees, less the first of them."""
    return [above for above in chain(path)[:-1] if reader.sees(above) and above != reader.path]


def _wanted(reader: PageReader, asked: dict[str, str], snapshot: Snapshot) -> str:
    """Return the path that is searched for, if limits of a new account could be set there."""
    path = asked.get("q", "").strip()
    try:
        is_new = check_path(path) not in snapshot.accounts
    except ValueError:
        return ""
    return path if is_new and reader.sees(path) else ""


def _period(asked: dict[str, str]) -> tuple[str, int]:
    name = asked.get("period", "24h")
    return (name, PERIODS[name]) if name in PERIODS else ("24h", PERIODS["24h"])


async def _http_error(request: Request, error: Any) -> Response:
    return _render(
        request, None, "error.html", error.status_code, code=error.status_code, text=error.detail
    )


async def _ledger_error(request: Request, error: Exception) -> Response:
    log.warning("the page cannot read the ledger: %s", error)
    text = "The ledger does not answer now; the log of the service says more."
    return _render(request, None, "error.html", 503, code=503, text=text)


async def _internal_error(request: Request, error: Exception) -> Response:
    text = "An error of the service; its log says more."
    return _render(request, None, "error.html", 500, code=500, text=text)
