"""Open a ledger by its URL, and choose what happens while it is out of reach."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar, cast

from budget_core.errors import refuse
from budget_core.ledger._types import AsyncLedgerProtocol as AsyncLedgerProtocol
from budget_core.ledger._types import LedgerProtocol as LedgerProtocol
from budget_cpython.ledger.journal import AsyncJournaledLedger, JournaledLedger
from budget_cpython.ledger.plugins import find_plugin, register
from budget_cpython.ledger.process import give_process

T = TypeVar("T")

_SERVERS = {
    "redis": "redis.RedisLedger",
    "rediss": "redis.RedisLedger",
    "redis+cluster": "redis.RedisLedger",
    "rediss+cluster": "redis.RedisLedger",
    "unix": "redis.RedisLedger",
    "postgres": "postgres.PostgresLedger",
    "postgresql": "postgres.PostgresLedger",
    "http": "http.HttpLedger",
    "https": "http.HttpLedger",
}
_GROUP = "microbudget.ledgers"
_OWN = {"memory": "memory.Ledger", "sqlite": "sqlite.SqliteLedger"}


def open_ledger(
    url: str,
    on_unavailable: str = "deny",
    cap: dict[str, Any] | None = None,
    block: dict[str, Any] | None = None,
    **options: Any,
) -> JournaledLedger:
    """Return the ledger at a URL, for threads, to be closed after use.

    - `memory:` is this process's own; `sqlite:PATH` a file, as in `sqlite:budget.db` or
      `sqlite:///var/lib/budget.db`, which must exist with `create=False`; `redis://`, `rediss://`
      (TLS) and `unix://` are as the `redis` library takes them, `postgresql://` as libpq does;
      `redis+cluster://HOST:PORT,HOST:PORT` and `rediss+cluster://` are nodes of a Redis Cluster;
      several of these, with spaces between them, are the databases of one ledger; `http://` and
      `https://` are what `microbudget serve` serves.
    - `on_unavailable`: while the ledger is out of reach, `"deny"` raises
      `LedgerUnavailableError`; `"allow"` grants up to `cap` by axis and settles that later
      (`OfflineCapLedger`); `"local"` leases a `block` of each path's budget and admits within it
      (`LeasedLedger`), which also asks the ledger less often.

    The other `options` are the engine's own, such as `clock`, `timeout`, `prefix`, `schema` or the
    `key` of an HTTP ledger. Raises `ValueError` for an unknown URL or option, and `ImportError`
    that names what to install for an engine whose library is missing. No message shows the URL.
    """
    return cast(JournaledLedger, _open(url, False, on_unavailable, cap, block, options))


def open_async_ledger(
    url: str,
    on_unavailable: str = "deny",
    cap: dict[str, Any] | None = None,
    block: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncJournaledLedger:
    """Return the ledger at a URL, for asyncio; everything is as in `open_ledger`."""
    return cast(AsyncJournaledLedger, _open(url, True, on_unavailable, cap, block, options))


def engine(scheme: str) -> Callable[[T], T]:
    """Return a decorator for a class or function that makes a ledger from a URL and options.

    `open_ledger` calls it for URLs of a scheme; asyncio asks the ledger in threads. An installed
    package names it by the scheme, in the group `microbudget.ledgers` of its entry points. Raises
    `ValueError` for a scheme that has an engine.
    """
    return register(_GROUP, scheme, {*_SERVERS, *_OWN})


def _check(on_unavailable: str, cap: dict[str, Any] | None, block: dict[str, Any] | None) -> None:
    if on_unavailable not in ("deny", "allow", "local"):
        refuse("on_unavailable", "'deny', 'allow' or 'local'", on_unavailable)
    if (on_unavailable == "allow") != bool(cap):
        raise ValueError("cap goes with on_unavailable='allow', which needs one: amounts by axis")
    if block is not None and on_unavailable != "local":
        raise ValueError("block goes with on_unavailable='local'")


def _open(
    url: str,
    awaited: bool,
    on_unavailable: str,
    cap: dict[str, int] | None,
    block: dict[str, int] | None,
    options: dict[str, Any],
) -> Any:
    _check(on_unavailable, cap, block)
    ledger = _beneath(url, awaited, options)
    if on_unavailable == "deny":
        return ledger
    kind, amounts = ("lease.LeasedLedger", block)
    if on_unavailable == "allow":
        kind, amounts = ("offline_cap.OfflineCapLedger", cap)
    return _engine(kind, awaited)(ledger, amounts)


def _beneath(url: str, awaited: bool, options: dict[str, Any]) -> Any:
    several = several_databases(url)
    if several:
        return _engine("postgres.PostgresLedger", awaited)(several, **options)
    scheme, colon, rest = url.partition(":") if isinstance(url, str) else ("", "", "")
    if scheme in _SERVERS and rest.startswith("//"):
        return _engine(_SERVERS[scheme], awaited)(url, **options)
    plugin = find_plugin(_GROUP, [scheme]) if colon and scheme not in {*_SERVERS, *_OWN} else None
    if plugin is not None:
        ledger = plugin[1](url, **options)
        give_process(ledger)
    elif scheme not in _OWN or not colon or bool(rest) != (scheme == "sqlite"):
        raise ValueError(
            "a ledger's URL is memory:, sqlite:PATH, or begins with redis://, rediss://, "
            "redis+cluster://, unix://, postgresql://, http:// or https://"
        )
    else:
        place = [sqlite_path(rest)] if rest else []
        ledger = _engine(_OWN[scheme], False)(*place, **options)
    return _engine("threaded.ThreadedLedger", False)(ledger) if awaited else ledger


def engine_of(url: str) -> str:
    """Return the engine of a ledger's URL, such as `sqlite`; empty for one that has no engine."""
    scheme = url.partition(":")[0]
    return scheme if scheme == "sqlite" else _SERVERS.get(scheme, "").partition(".")[0]


def several_databases(url: str) -> list[str]:
    """Return the URLs of the Postgres databases of one ledger; none where `url` is one."""
    each = url.split() if isinstance(url, str) else []
    known = [one.startswith(("postgresql://", "postgres://")) for one in each]
    return each if len(each) > 1 and all(known) else []


def _engine(name: str, awaited: bool) -> Any:
    module, _, kind = name.partition(".")
    return getattr(
        import_module("budget_cpython.ledger." + module), "Async" + kind if awaited else kind
    )


def sqlite_path(place: str) -> str:
    """Return the path of an SQLite file by what follows `sqlite:` in its URL.

    It is absolute with an empty host before it. Raises `ValueError` for another host or a query.
    """
    path = place[2:] if place.startswith("///") else place
    if path.startswith("//") or "?" in path or path in ("/", ":memory:"):
        raise ValueError("an SQLite ledger's URL is sqlite:PATH, or sqlite:///ABSOLUTE/PATH")
    return path
