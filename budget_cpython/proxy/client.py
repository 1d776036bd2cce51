"""The client that asks the upstreams, which all accounts share."""

from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from budget_cpython.adapters.http_client import budgeted_http_client

CONNECT_S = 10.0
_KEPT = 1000  # idle connections
_KEPT_S = 30.0


def timeouts(upstream_s: float) -> dict[str, Any]:
    """Return the extension of a request whose upstream may send nothing for so many seconds."""
    return {"connect": CONNECT_S, "read": upstream_s, "write": upstream_s, "pool": None}


def open_client() -> httpx.AsyncClient:
    """Return a client whose model calls draw on the layers that each request names.

    It keeps no cookie: the next request may be another account's. It goes through the proxies that
    the environment names, as in `HTTPS_PROXY`.
    """
    no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    limits = httpx.Limits(max_keepalive_connections=_KEPT, keepalive_expiry=_KEPT_S)
    return budgeted_http_client(httpx.AsyncClient(limits=limits, cookies=no_cookies))
