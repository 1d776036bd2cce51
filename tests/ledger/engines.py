"""The engines of this machine: each makes one ledger after the other, with nothing in it."""

import asyncio
import atexit
import json
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from budget_core.ledger.errors import LedgerError
from budget_core.ledger.hold import TTL, Hold
from budget_cpython import Ledger, SqliteLedger
from budget_cpython.ledger.dbos.plain import pack, unpack
from budget_cpython.ledger.http import AsyncHttpLedger, HttpLedger
from budget_cpython.ledger.http_journal import HttpJournal
from budget_cpython.ledger.postgres import AsyncPostgresLedger, PostgresLedger
from budget_cpython.ledger.redis import AsyncRedisLedger, RedisLedger
from budget_cpython.ledger.threaded import ThreadedLedger
from budget_cpython.serve.app import make_app
from tests.ledger.patience import NO_HURRY, PATIENCE
from tests.ledger.postgres import server as postgres
from tests.ledger.redis import server as redis
from tests.serve.support import Service


class InLoop:
    """A ledger that is awaited, in an event loop of its own, or the `ledger` itself for another."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self._runner = asyncio.Runner()

        self.run = self._runner.run

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.ledger, name)
        return lambda *given, **named: self.run(method(*given, **named))

    def close(self) -> None:
        self.run(self.ledger.close())
        self._runner.close()


def in_loop(kind: Any) -> Any:
    """Return what makes ledgers of a kind that is awaited, each in a loop of its own."""
    return lambda *given, **named: InLoop(kind(*given, **named))


class Engine:
    """Makes ledgers; `batch` names how many holds it expires at a time.

    `expires_by_root` is true of one that expires less than all before it is asked for one root,
    `places` is how many count their accounts.
    """

    batch = ""
    places = 1
    expires_by_root = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: Any = None

    def make(self, clock: Callable[[], float] | None = None, **options: Any) -> Any:
        """Return a ledger with nothing in it, and close the last one."""
        self.close()
        self.empty()
        self.made = self.open(**options if clock is None else {"clock": clock, **options})
        return self.made

    def open(self, **options: Any) -> Any:
        """Return another ledger on the same accounts."""
        raise NotImplementedError

    def empty(self) -> None:
        """Remove all accounts and holds."""

    def close(self) -> None:
        """Close the ledger that was made last."""
        if self.made is not None:
            self.made.close()
            self.made = None


class Memory(Engine):
    def open(self, **options: Any) -> Ledger:
        return Ledger(**options)


class Sqlite(Engine):
    batch = "budget_cpython.ledger.sqlite.loaded_ledger.STEP"
    number = 0

    def open(self, **options: Any) -> Any:
        return SqliteLedger(self.folder / f"{self.number}.db", timeout=NO_HURRY, **options)

    def empty(self) -> None:
        self.number += 1


class AwaitedSqlite(Sqlite):
    """A ledger that blocks, in threads of its own."""

    def open(self, **options: Any) -> Any:
        return InLoop(ThreadedLedger(super().open(**options)))


class Redis(Engine):
    batch = "budget_cpython.ledger.redis.backend.BATCH"
    expires_by_root = True
    kind: Any = RedisLedger

    def open(self, **options: Any) -> Any:
        options.pop("max_holds", None)
        return self.kind(redis.server().url, timeout=PATIENCE, **options)

    def empty(self) -> None:
        redis.empty_server()


class AwaitedRedis(Redis):
    kind = staticmethod(in_loop(AsyncRedisLedger))


class Postgres(Engine):
    """It keeps a ledger for each choice of options: to connect takes longer than a test."""

    batch = "budget_cpython.ledger.postgres.statements.BATCH"
    kind: Any = PostgresLedger

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._kept: dict[str, Any] = {}
        self._clock: Callable[[], float] = float

    def make(self, clock: Callable[[], float] | None = None, **options: Any) -> Any:
        self.empty()
        name = repr((clock is None, options))
        if name not in self._kept:
            own = {} if clock is None else {"clock": lambda: self._clock()}
            self._kept[name] = self.open(**own, **options)
        self._clock = clock or self._clock
        return self._kept[name]

    def open(self, **options: Any) -> Any:
        options.pop("max_holds", None)
        conninfo = postgres.server().conninfo(options="-c synchronous_commit=off")
        return self.kind(conninfo, timeout=NO_HURRY, **options)

    def empty(self) -> None:
        _emptier().empty()

    def close(self) -> None:
        for ledger in self._kept.values():
            ledger.close()
        self._kept.clear()


class AwaitedPostgres(Postgres):
    kind = staticmethod(in_loop(AsyncPostgresLedger))


class SpreadPostgres(Postgres):
    """Three databases, with the accounts of a root in one of them."""

    expires_by_root = True
    places = 3

    def open(self, **options: Any) -> Any:
        options.pop("max_holds", None)
        off = "-c synchronous_commit=off"
        names = postgres.several_databases()
        each = [postgres.server().conninfo(dbname=name, options=off) for name in names]
        return self.kind(each, timeout=NO_HURRY, **options)

    def empty(self) -> None:
        for one in _emptiers():
            one.empty()


class AwaitedSpreadPostgres(SpreadPostgres):
    kind = staticmethod(in_loop(AsyncPostgresLedger))


class Http(Engine):
    def open(self, **options: Any) -> InLoop:
        return InLoop(OverHttp(Ledger(**options)))


class Dbos(Engine):
    """What a step of a workflow gives and stores is plain data."""

    def open(self, **options: Any) -> "Plain":
        return Plain(Ledger(**options))


class Served(Engine):
    """A service in a process of its own, which has its own clock, until this is closed."""

    kind: Any = HttpLedger

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._service = Service("--engine", "memory:", "--listen", "127.0.0.1:0")

    def make(self, clock: Callable[[], float] | None = None, **options: Any) -> Any:
        if self.made is not None:
            self.made.close()
        self.empty()
        self.made = self.open()
        return self.made

    def open(self, **options: Any) -> Any:
        return self.kind(self._service.url, timeout_s=NO_HURRY)

    def empty(self) -> None:
        with closing(HttpLedger(self._service.url, timeout_s=NO_HURRY)) as ledger:
            for account in ledger.accounts():
                ledger.set_limits(account, [])

    def close(self) -> None:
        super().close()
        with self._service:
            assert self._service.end() == (0, "")


class AwaitedServed(Served):
    kind = staticmethod(in_loop(AsyncHttpLedger))


ENGINES = (Memory, Sqlite, Redis, Postgres)
SPREAD = (SpreadPostgres, AwaitedSpreadPostgres)
AWAITED = (AwaitedSqlite, AwaitedRedis, AwaitedPostgres, Http)


def of(*kinds: Any) -> pytest.MarkDecorator:
    """Try a test on these engines: `engine` is each."""
    return pytest.mark.parametrize("engine", kinds, indirect=True, ids=lambda kind: kind.__name__)


@cache
def _emptier() -> postgres.Emptier:
    with closing(PostgresLedger(postgres.server().conninfo(), timeout=NO_HURRY)) as ledger:
        ledger.accounts()  # which makes the schema
    one = postgres.Emptier()
    atexit.register(one.close)
    return one


@cache
def _emptiers() -> list[postgres.Emptier]:
    """Return those of several databases, which have their schema then."""
    names = postgres.several_databases()
    each = [postgres.server().conninfo(dbname=name) for name in names]
    with closing(PostgresLedger(each, timeout=NO_HURRY)) as ledger:
        ledger.accounts()
    found = [postgres.Emptier(name) for name in names]
    for one in found:
        atexit.register(one.close)
    return found


class OverHttp(HttpJournal):
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
        return _marked(key, await super().reserve(path, amounts, key, ttl, wait))

    async def renew(
        self,
        hold: Hold,
        actual: dict[str, Any] | None,
        amounts: Any,
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        return _marked(key, await super().renew(hold, actual, amounts, key, ttl))

    async def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
        return _marked(key, await super().charge(path, amounts, key))

    async def _exchange(
        self, method: str, path: str, body: bytes, patience_s: float
    ) -> tuple[int, bytes]:
        sent, url = body.replace(b'"#', b'"'), path.replace("%23", "")
        headers = {"Content-Type": "application/json"}
        answer = await self._client.request(method, url, content=sent, headers=headers)
        return answer.status_code, answer.content


def _marked(key: str | None, hold: Hold) -> Hold:
    if key is None:
        hold.id = "#" + hold.id
    return hold


class Plain:
    """A ledger whose answers and errors go through JSON."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._holds: dict[
            tuple[str, str], Hold
        ] = {}  # which has to be its own, once settled without a key
        self.close = ledger.close

    def __getattr__(self, operation: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            taken = [self._own(one) if isinstance(one, Hold) else one for one in arguments]
            try:
                given = getattr(self._ledger, operation)(*taken, **options)
            except LedgerError as error:
                given = error
            if isinstance(given, Hold):
                self._holds[given.path, given.id] = given
            return unpack(json.loads(json.dumps(pack(given))))

        return call

    def _own(self, hold: Hold) -> Hold:
        return self._holds.get((hold.path, hold.id), hold)
