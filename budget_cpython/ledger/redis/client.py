"""Open a client of the `redis` library by a URL."""

import re
from typing import Any

import redis.asyncio
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.utils import HIREDIS_AVAILABLE

from budget_cpython.ledger.redis.cluster import AwaitedCluster, LateCluster

if HIREDIS_AVAILABLE:
    from hiredis import pack_command

MAX_CONNECTIONS = 64  # further threads and tasks wait for one
CLUSTER = "+cluster://"
_OF_A_NODE = 1000  # connections; a client of a cluster refuses further ones
_MISPLACED = re.compile("//[^/?#]*[/?#].*@", re.DOTALL)  # an @ after the host: a password's / or ?
_NODE = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(:(?P<port>[0-9]{1,5}))?\Z")


class _HiredisPacking:
    """Packs commands by `hiredis`, as connections that block do: a script has some 20 arguments."""

    def pack_command(self, *args: Any) -> list[bytes]:
        if " " in args[0]:  # they are two words of the protocol
            args = (*args[0].split(), *args[1:])
        return [pack_command(args)]


def open_client(library: Any, url: str, timeout: float) -> Any:
    """Return a client of `redis` or `redis.asyncio`; it sends nothing twice, the ledger does.

    Raises `ValueError`, which does not show the URL.
    """
    scheme, is_cluster, rest = url.partition(CLUSTER)
    user, at, place = rest.rpartition("@")
    nodes = re.split(r"[/?#]", place, maxsplit=1)[0]
    one = f"{scheme}://{user}{at}{nodes.split(',')[0]}{place[len(nodes) :]}" if is_cluster else url
    own = {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "retry": library.retry.Retry(NoBackoff(), 0),
    }
    try:
        if not _MISPLACED.search(one):
            pool = library.BlockingConnectionPool.from_url(
                one, max_connections=MAX_CONNECTIONS, timeout=None, **own
            )
            pool.connection_class(**pool.connection_kwargs)  # raises for an unknown option
            if is_cluster:
                return _cluster(library, nodes, {**own, **library.connection.parse_url(one)})
            if library is redis.asyncio and HIREDIS_AVAILABLE:
                kind = pool.connection_class
                pool.connection_class = type(kind.__name__, (_HiredisPacking, kind), {})
            return library.Redis.from_pool(pool)
    except (TypeError, ValueError, RedisError):
        pass  # its text may hold a part of the password
    raise ValueError(
        "server must be a URL such as redis://user:password@host:6379/0, or "
        "redis+cluster://user:password@host:6379,host:6379 without a database, with options that "
        "the redis library knows; write a / or @ in a password, and an @ after the host, as %2F "
        "or %40"
    )


def _cluster(library: Any, nodes: str, options: dict[str, Any]) -> Any:
    """Return a client of the cluster that these nodes know; the options are those of one node."""
    if options.pop("db", 0) or "path" in options:
        raise ValueError("a cluster has one database, and no Unix socket")
    if options.pop("connection_class", None) is not None:
        options["ssl"] = True
    for name in ("host", "port"):
        options.pop(name, None)
    is_awaited = library is redis.asyncio
    node = (redis.asyncio.cluster if is_awaited else redis.cluster).ClusterNode
    options["startup_nodes"] = [node(*_place(text)) for text in nodes.split(",")]
    if is_awaited:
        return AwaitedCluster(max_connections=_OF_A_NODE, **options)
    return LateCluster(**options)


def _place(node: str) -> tuple[str, int]:
    found = _NODE.match(node)
    if found is None:
        raise ValueError("no host")
    return found["host"].strip("[]"), int(found["port"] or 6379)
