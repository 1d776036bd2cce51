"""Run the service with uvicorn until it is told to stop."""

import logging
import re
import socket
from contextlib import suppress
from functools import partial
from typing import Any, cast

import uvicorn

from budget_cpython.serve.addresses import ListenAddress
from budget_cpython.serve.connections import Connection, ConnectionLimits

MAX_HEADERS = 16_384
_MAX_LOGGED = 500  # letters of a URL
_KEY = re.compile(r"(mb\.[\w-]+\.)[\w-]+")


def run_service(
    app: Any,
    address: ListenAddress,
    limits: ConnectionLimits,
    *,
    grace: float,
    access_log: bool = False,
    certificate: "tuple[str, str | None] | None" = None,
) -> int:
    """Serve until SIGTERM or SIGINT, then until all requests are answered, or `grace` s passed.

    Prints the URL once it serves, and returns the exit code. A second Ctrl-C stops it at once.
    `certificate` is the paths of a certificate and its private key, for https. Raises `OSError` if
    it cannot listen, or the certificate cannot be used.
    """
    logging.basicConfig(format="%(levelname)s: %(message)s")
    config = uvicorn.Config(
        app,
        http=cast("Any", partial(Connection, limits)),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # each malformed request is a warning
        access_log=access_log,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=2 * limits.total,  # requests outlive connections that were ended
        h11_max_incomplete_event_size=MAX_HEADERS,
        timeout_keep_alive=max(1, round(limits.idle_s)),
        timeout_graceful_shutdown=max(1, round(grace)),
        ssl_certfile=certificate and certificate[0],
        ssl_keyfile=certificate and certificate[1],
    )
    access = logging.getLogger("uvicorn.access")
    access.setLevel(logging.INFO)
    access.addFilter(_hide_keys)
    with address.listen() as listener:
        url = str(address)
        if not address.path:
            host, port = listener.getsockname()[:2]
            url = f"http{'s' * config.is_ssl}://{f'[{host}]' if ':' in host else host}:{port}"
        server = _Server(config, url)
        with suppress(KeyboardInterrupt, SystemExit):  # uvicorn raises the signals again
            server.run(sockets=[listener])
    address.remove_socket()
    return 0 if server.started else 1


def _hide_keys(record: logging.LogRecord) -> bool:
    """Log a URL without its query, and without a key in its path: both are mistakes that happen."""
    address, method, url, *more = cast("tuple[str, ...]", record.args)
    path = _KEY.sub(r"\1...", url.partition("?")[0])
    record.args = (address, method, path[:_MAX_LOGGED], *more)
    return True


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
        await super().startup(sockets)
        if self.started:
            print(self._url, flush=True)
