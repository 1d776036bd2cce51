"""The proxy as an ASGI app: find the account and the upstream, and pass the call on."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import lru_cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from budget_core.ledger import memory
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.client import budgeted_http_client
from budget_cpython.context.deadline import Deadline
from budget_cpython.proxy.access import Access
from budget_cpython.proxy.accounts import ProxyAccount, Rules
from budget_cpython.proxy.body_helper import BodyHelper
from budget_cpython.proxy.exchange import Exchange
from budget_cpython.proxy.forward import Forward
from budget_cpython.proxy.headers import to_upstream
from budget_cpython.proxy.upstreams import Upstream, check_plain, choose, vendor_of
from budget_cpython.proxy.usage_by_model import UsageByModel
from budget_cpython.web.served_ledger import ServedLedger, probes

TIMEOUT_HEADER = "x-microbudget-timeout"
MAX_BODY = 1 << 25  # bytes
READ_ON_S = 60.0
SWITCH_S = 0.0005  # of the command's process: threads that read large bodies let the loop go on
UPSTREAM_TIMEOUT_S = 600.0
_LEDGER_S = 10.0  # seconds to answer /readyz
_CONNECT_S = 10.0
_MOST_ACCOUNTS = 1000  # that are kept; the others are made again
_IDLE = httpx.Limits(max_keepalive_connections=1000, keepalive_expiry=30.0)
_BROKEN_OFF = "ASGI callable returned without completing response."


class _Everything:
    """An ASGI app for starlette, which takes a bare function for another kind of endpoint."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class Proxy:
    """A reverse proxy that keeps the calls to its upstreams within budgets.

    `app` is a starlette app, for any ASGI server. `usage` is what was used by model since the
    start, by all accounts of this process. `running` serves it in a thread:

    ```python
    account = BudgetAccount(parse_limits("$5"))
    proxy = Proxy({"openai": "https://api.openai.com"}, [account])
    with proxy.running() as url:
        ...  # OpenAI's clients take f"{url}/v1" as their base URL, Anthropic's url itself
    print(proxy.usage.rows())
    ```

    - `upstreams` are URLs or `Upstream`s by name. A path's first segment, if it is a name, chooses
      one; else a single one gets everything, and of several the path's format decides between
      `openai`, `anthropic` and `google`.
    - `accounts` are those that every call draws on, the outermost first; or a function that
      returns the `Rules` of an account's path, which `access` finds for each request.
    - `notices` tells the model of limits, and withdraws tools near them; without it messages and
      tools stay as they are. `strict` refuses requests that are not model calls of a known format;
      without it they count as one call each, unless they are free. Both are parts of `Rules`.
    - `ledger` is asked by `/readyz` whether it answers: by default that of the first account.
    - `read_on_s` is how many seconds an answer is read on after its client has left, to learn what
      it used. `max_body` is the most bytes of a request, `upstream_timeout_s` how long an upstream
      may send nothing.
    - With `page` browsers find the operators' page of `ledger` at `/`; `page_secret` is the one of
      all processes that serve it, for the sessions of readers.
    - With `metrics` there is `/metrics` for Prometheus, which shows at most so many accounts of the
      ledger, and while the app runs, the calls of this process.
    """

    def __init__(
        self,
        upstreams: Mapping[str, "Upstream | str"],
        accounts: "Sequence[BudgetAccount] | Callable[[str], Rules]",
        *,
        access: Access | None = None,
        notices: bool = False,
        strict: bool = False,
        read_on_s: float = READ_ON_S,
        max_body: int = MAX_BODY,
        upstream_timeout_s: float = UPSTREAM_TIMEOUT_S,
        ledger: Any = None,
        page: bool = False,
        page_secret: bytes | None = None,
        metrics: int | None = None,
    ) -> None:
        if not upstreams:
            raise ValueError("a proxy needs at least one upstream, as in openai=https://…")
        self.usage = UsageByModel()
        self._upstreams = {
            name: one if isinstance(one, Upstream) else Upstream(name, one)
            for name, one in upstreams.items()
        }
        self._access = access or Access("budget")
        if callable(accounts):
            rules_of = accounts
        else:
            rules = Rules(list(accounts), notices, strict)
            ledger = ledger or (rules.accounts[0].ledger if rules.accounts else None)

            def rules_of(path: str) -> Rules:
                return rules

        self._rules_of = rules_of
        self._account = lru_cache(_MOST_ACCOUNTS)(self._open_account)
        self._helper = BodyHelper()
        self._running: set[asyncio.Task[Any]] = set()
        self._ledgers: dict[int, BudgetAccount] = {}  # one of each ledger, by its id
        timeout = httpx.Timeout(upstream_timeout_s, connect=_CONNECT_S, pool=None)
        self._timeouts = timeout.as_dict()
        self._client: httpx.AsyncClient | None = None
        self.ledger = ledger
        self._read_on_s = read_on_s
        self._max_body = max_body
        served = None if ledger is None else ServedLedger(ledger, _LEDGER_S)
        self._shows_page = page and served is not None
        self._observer: Any = None
        self.app = Starlette(
            routes=[
                *probes(served),
                *self._metrics_routes(metrics, served),
                *self._page_routes(served, page_secret),
                Route("/{path:path}", _Everything(self._answer)),
            ],
            lifespan=self._lifespan,
        )
        self.app.router.redirect_slashes = False

    def running(self, address: str = "127.0.0.1:0") -> AbstractContextManager[str]:
        """Return a `with` in which a thread serves the proxy; `as` gives its URL.

        At its end running answers have a few seconds to finish.
        """
        from budget_cpython.web.server import running

        return running(self.app, address)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        logging.getLogger("uvicorn.error").addFilter(_is_no_break)
        try:
            with self._observing():
                yield
        finally:
            client, self._client = self._client, None
            if client is not None:
                await client.aclose()
            self._helper.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEDGER_S):
                    await self._settle_all()

    def _metrics_routes(self, accounts: int | None, ledger: ServedLedger | None) -> list[Route]:
        if accounts is None:
            return []
        from budget_cpython.telemetry.metrics_route import metrics_route
        from budget_cpython.telemetry.prometheus import PrometheusObserver

        self._observer = PrometheusObserver(accounts)
        return [metrics_route(self._observer, ledger, self._access.keys)]

    @contextmanager
    def _observing(self) -> Iterator[None]:
        """Count the calls of this process meanwhile, if there are metrics."""
        if self._observer is None:
            yield
            return
        from budget_cpython.telemetry.observing import observe, unobserve

        observe(self._observer)
        try:
            yield
        finally:
            unobserve(self._observer)

    async def _settle_all(self) -> None:
        """Wait for the calls that were ended to be settled; deliver what ledgers are owed."""
        running = self._running - {asyncio.current_task()}
        if running:
            await asyncio.wait(running)
        for account in list(self._ledgers.values()):
            await account.flush()

    def _page_routes(self, served: ServedLedger | None, secret: bytes | None) -> list[BaseRoute]:
        """Return the routes of the page; `/` is its own for browsers alone."""
        if served is None or not self._shows_page:
            return []
        from budget_cpython.page.app import FOLDER, page_routes
        from budget_cpython.page.watch import LedgerWatch

        if FOLDER[:-1] in self._upstreams:
            raise ValueError(f"an upstream needs another name: /{FOLDER} is the page's")
        path = self._access.account if self._access.is_open else ""
        front, *others = page_routes(LedgerWatch(served, path), self._access.door(secret))

        async def choose(scope: Scope, receive: Receive, send: Send) -> None:
            is_browser = "text/html" in Headers(scope=scope).get("accept", "")
            await (front.handle if is_browser else self._answer)(scope, receive, send)

        return [Route("/", _Everything(choose)), *others]

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        task: Any = asyncio.current_task()
        self._running.add(task)
        try:
            await self._pass_on(scope, receive, send)
        finally:
            self._running.discard(task)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        exchange = Exchange(scope, receive, send, vendor_of(path.decode("latin-1"), headers))
        try:
            prepared = self._prepare(scope, headers, path, exchange.vendor)
            body = await exchange.read_body(self._max_body)
        except HTTPException as error:
            await exchange.refuse(error)
        except ClientDisconnect:
            return
        else:
            try:
                await prepared.run(exchange, body)
            except asyncio.CancelledError:  # by the server: it waits no longer for answers
                await exchange.refuse(HTTPException(503, "the proxy is being stopped"))

    def _open_account(self, path: str) -> ProxyAccount:
        rules = self._rules_of(path)
        for account in rules.accounts:
            if not isinstance(account.ledger, memory.Ledger):
                self._ledgers[id(account.ledger)] = account
        return ProxyAccount(rules, self.usage, self._helper)

    def _prepare(self, scope: Scope, headers: Headers, path: bytes, vendor: str) -> Forward:
        """Return how a request is sent on; `HTTPException` for one that is not."""
        check_plain(path)
        if self._shows_page and headers.get("sec-fetch-mode") == "navigate":
            # a page of an upstream would have the same origin as ours, and all that it may do
            raise HTTPException(403, "pages of upstreams are not shown in browsers")
        account_path, keeps_credentials = self._access.account_of(headers)
        upstream, path = choose(self._upstreams, path, headers)
        account = self._account(account_path)
        if self._client is None:
            self._client = _open_client()
        prepared = Forward(
            method=scope["method"],
            url=upstream.target(path, scope["query_string"]),
            headers=to_upstream(scope["headers"], upstream, vendor, keeps_credentials),
            client=self._client,
            timeouts=self._timeouts,
            account=account,
            deadline=_deadline_of(headers),
            read_on_s=self._read_on_s,
        )
        if account.strict and not prepared.is_known:
            raise HTTPException(403, "only model calls of known formats are passed on (--strict)")
        return prepared


def _open_client() -> httpx.AsyncClient:
    """Return a client whose model calls draw on the accounts that each request names.

    It keeps no cookie: the next request may be another account's. It goes through the proxies that
    the environment names, as in `HTTPS_PROXY`.
    """
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    return budgeted_http_client(httpx.AsyncClient(limits=_IDLE, cookies=no_cookies))


def _is_no_break(record: logging.LogRecord) -> bool:
    """Log no error of the server for an answer that broke off upstream, and so here as well."""
    return record.msg != _BROKEN_OFF


def _deadline_of(headers: Headers) -> Deadline | None:
    text = headers.get(TIMEOUT_HEADER)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise HTTPException(
            400, f"{TIMEOUT_HEADER} is whole milliseconds, as Deadline.to_wire gives"
        )
    return Deadline.from_wire(int(text))
