"""Serve an app with uvicorn: until the process is told to stop, or in a thread of a program."""

import gc
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.supervisors import Multiprocess

from budget_cpython.web.addresses import ListenAddress
from budget_cpython.web.connections import ConnectionLimits, LimitedConnection, StrictConnection

_GRACE_S = 5  # of a thread
_NOT_STARTED = 3  # the exit code of a worker of uvicorn
_COLLECTED_AFTER = (50_000, 20, 100)  # new objects, and how many times that
_MAX_LOGGED = 500  # letters of a URL
_KEY = re.compile(r"(mb\.[\w-]+\.)[\w-]+")
_config = partial(
    uvicorn.Config,
    ws="none",
    lifespan="on",
    log_config=None,
    log_level="error",  # each malformed request is a warning
    proxy_headers=False,
    server_header=False,
)


def _print(url: str) -> None:
    print(url, flush=True)


def run_service(
    app: Any,
    address: ListenAddress,
    limits: ConnectionLimits,
    *,
    grace: float,
    access_log: bool = False,
    certificate: "tuple[str, str | None] | None" = None,
    workers: int = 1,
    announce: Callable[[str], object] = _print,
) -> int:
    """Serve until SIGTERM or SIGINT, then until all requests are answered, or `grace` s passed.

    Prints the URL once it serves, or has `announce` do so, and returns the exit code. A second
    Ctrl-C stops it at once.
    `certificate` is the paths of a certificate and its private key, for https. With several
    `workers` as many processes serve; `app` is then a function that makes the app, and can be
    pickled. Raises `OSError` if it cannot listen, or the certificate cannot be used.
    """
    config = _config(
        partial(_worker_app, app) if workers > 1 else app,
        factory=workers > 1,
        workers=workers,
        http=cast("Any", partial(LimitedConnection, limits)),
        access_log=access_log,
        limit_concurrency=2 * limits.total,  # requests outlive connections that were ended
        timeout_keep_alive=max(1, round(limits.idle_s)),
        timeout_graceful_shutdown=max(1, round(grace)),
        ssl_certfile=certificate and certificate[0],
        ssl_keyfile=certificate and certificate[1],
    )
    log_requests()  # after `Config`, which sets levels
    with address.listen() as listener:
        url = address.url(listener, config.is_ssl)
        if workers > 1:
            done = _run_workers(config, listener, partial(announce, url))
        else:
            server = _UvicornServer(config, partial(announce, url))
            collect_rarely()
            with suppress(KeyboardInterrupt, SystemExit):  # uvicorn raises the signals again
                server.run(sockets=[listener])
            done = server.started
    address.remove_socket()
    return 0 if done else 1


@contextmanager
def running(app: Any, address: str) -> Iterator[str]:
    """Serve an app in a thread while the `with` lasts; `as` gives its URL.

    Raises `OSError` where it cannot listen, `RuntimeError` where it cannot serve.
    """
    place = ListenAddress.parse(address)
    with place.listen() as listener:
        url = place.url(listener)
        with serving(app, listener, url):
            yield url
    place.remove_socket()


@contextmanager
def serving(app: Any, listener: socket.socket, url: str) -> Iterator[None]:
    """Serve an app in a thread while the `with` lasts, on what listens at `url`.

    Raises `RuntimeError` where it cannot serve.
    """
    config = _config(
        app,
        http=cast("Any", StrictConnection),
        access_log=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    up = threading.Event()
    server = _UvicornServer(config, up.set)

    def serve() -> None:
        try:
            server.run([listener])
        finally:
            up.set()  # or never will be

    thread = threading.Thread(target=serve, name="microbudget-server", daemon=True)
    thread.start()
    try:
        up.wait()
        if not server.started:
            raise RuntimeError(f"the server could not start on {url}")
        yield
    finally:
        server.should_exit = True
        thread.join()


def collect_rarely() -> None:
    """Have a process of a service look for cycles rarely, and never among what it began with.

    A request leaves hardly any, and a search through all that is loaded delays those of that time:
    the 99th percentile was three times as long.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)


def _worker_app(make: Callable[[], Any]) -> Any:
    app = make()
    collect_rarely()
    return app


def log_requests() -> None:
    """Write logs to stderr: warnings, and requests without their keys if they are logged at all."""
    logging.basicConfig(format="%(levelname)s: %(message)s")
    access = logging.getLogger("uvicorn.access")
    access.setLevel(logging.INFO)
    access.addFilter(_hide_keys)


def _run_workers(
    config: uvicorn.Config, listener: socket.socket, announce: Callable[[], object]
) -> bool:
    """Serve in processes until told to stop; return whether they served."""
    workers = Multiprocess(config, [listener])
    announce()  # connections wait until the first worker serves
    workers.run()
    return all(process.exitcode != _NOT_STARTED for process in workers.processes)


def _hide_keys(record: logging.LogRecord) -> bool:
    """Log a URL without its query, and without a key in its path: both are mistakes that happen."""
    address, method, url, *more = cast("tuple[str, ...]", record.args)
    path = _KEY.sub(r"\1...", url.partition("?")[0])
    record.args = (address, method, path[:_MAX_LOGGED], *more)
    return True


class _UvicornServer(uvicorn.Server):
    """A server that calls a function once it serves."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], object]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_started()
