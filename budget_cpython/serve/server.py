"""Run the service with uvicorn until it is told to stop."""

import logging
import re
import socket
from contextlib import suppress
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.supervisors import Multiprocess

from budget_cpython.serve.addresses import ListenAddress
from budget_cpython.serve.connections import Connection, ConnectionLimits

MAX_HEADERS = 16_384
_NOT_STARTED = 3  # the exit code of a worker of uvicorn
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
    workers: int = 1,
) -> int:
    """Serve until SIGTERM or SIGINT, then until all requests are answered, or `grace` s passed.

    Prints the URL once it serves, and returns the exit code. A second Ctrl-C stops it at once.
    `certificate` is the paths of a certificate and its private key, for https. With several
    `workers` as many processes serve; `app` is then a function that makes the app, and can be
    pickled. Raises `OSError` if it cannot listen, or the certificate cannot be used.
    """
    config = uvicorn.Config(
        app,
        factory=workers > 1,
        workers=workers,
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
    log_requests()  # after `Config`, which sets levels
    with address.listen() as listener:
        url = url_of(address, listener, config.is_ssl)
        if workers > 1:
            done = _run_workers(config, listener, url)
        else:
            server = _Server(config, url)
            with suppress(KeyboardInterrupt, SystemExit):  # uvicorn raises the signals again
                server.run(sockets=[listener])
            done = server.started
    address.remove_socket()
    return 0 if done else 1


def log_requests() -> None:
    """Write logs to stderr: warnings, and requests without their keys if they are logged at all."""
    logging.basicConfig(format="%(levelname)s: %(message)s")
    access = logging.getLogger("uvicorn.access")
    access.setLevel(logging.INFO)
    access.addFilter(_hide_keys)


def url_of(address: ListenAddress, listener: socket.socket, is_ssl: bool = False) -> str:
    """Return the URL of what listens at an address."""
    if address.path:
        return str(address)
    host, port = listener.getsockname()[:2]
    return f"http{'s' * is_ssl}://{f'[{host}]' if ':' in host else host}:{port}"


def _run_workers(config: uvicorn.Config, listener: socket.socket, url: str) -> bool:
    """Serve in processes until told to stop; return whether they served."""
    workers = Multiprocess(config, [listener])
    print(url, flush=True)  # connections wait until the first worker serves
    workers.run()
    return all(process.exitcode != _NOT_STARTED for process in workers.processes)


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
