"""Print whether the name of the endpoint's host is found."""
# mypy: ignore-errors

import settings

from budget_core.board.device import optional


def _look():
    base_url = getattr(optional("secret"), "BASE_URL", "") or getattr(settings, "BASE_URL", "")
    host = base_url.partition("://")[2].partition("/")[0].partition(":")[0]
    socket = optional("socket")
    if not host or socket is None:
        return {
            "absent": "its firmware has no sockets" if host else "its settings name no BASE_URL"
        }
    try:
        place = socket.getaddrinfo(host, 443)[0][-1]
    except (OSError, IndexError) as error:
        return {"host": host, "error": str(error) or type(error).__name__}
    return {"host": host, "address": place[0] if isinstance(place, tuple) else ""}
