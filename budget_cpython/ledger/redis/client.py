"""Open a client of the `redis` library by a URL."""

import re
from typing import Any

from redis.backoff import NoBackoff
from redis.exceptions import RedisError

MAX_CONNECTIONS = 64  # further threads and tasks wait for one
_MISPLACED = re.compile("//[^/?#]*[/?#].*@", re.DOTALL)  # an @ after the host: a password's / or ?


def open_client(library: Any, url: str, timeout: float) -> Any:
    """Return a client of `redis` or `redis.asyncio`; it sends nothing twice, the ledger does.

    Raises `ValueError`, which does not show the URL.
    """
    try:
        if not _MISPLACED.search(url):
            pool = library.BlockingConnectionPool.from_url(
                url,
                max_connections=MAX_CONNECTIONS,
                timeout=None,
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
                retry=library.retry.Retry(NoBackoff(), 0),
            )
            pool.connection_class(**pool.connection_kwargs)  # raises for an unknown option
            return library.Redis.from_pool(pool)
    except (TypeError, ValueError, RedisError):
        pass  # its text may hold a part of the password
    raise ValueError(
        "server must be a URL such as redis://user:password@host:6379/0 with options that the "
        "redis library knows; write a / or @ in a password, and an @ after the host, as %2F or %40"
    )
