"""Tell whether a name is this machine's own, so that no other site's page is let in."""

import ipaddress
import re
from collections.abc import Mapping

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]+)(:[0-9]{1,5})?", re.ASCII)


def is_loopback(host: str) -> bool:
    """Tell whether only this machine answers at a name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def names_loopback(host: str) -> bool:
    """Tell whether a request's `Host`, with a port or without, is this machine."""
    parts = _HOST.fullmatch(host.lower())
    return parts is not None and is_loopback(parts[1].strip("[]"))


def is_of_another_site(headers: Mapping[str, str]) -> bool:
    """Tell whether a browser says that a page from elsewhere makes a request."""
    origin = headers.get("origin")
    if origin is not None:
        scheme, _, host = origin.partition("://")
        if scheme not in ("http", "https") or not names_loopback(host):
            return True
    return headers.get("sec-fetch-site") == "cross-site"
