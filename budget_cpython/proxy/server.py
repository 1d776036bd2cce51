"""Serve the proxy in a thread of a program."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from budget_cpython.serve.addresses import ListenAddress
from budget_cpython.serve.server import url_of

_GRACE_S = 5
_BROKEN_OFF = "ASGI callable returned without completing response."


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    def run(self, sockets: Any = None) -> None:
        try:
            super().run(sockets)
        finally:
            self.is_up.set()  # or never will be

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


@contextmanager
def running(app: Any, address: str) -> Iterator[str]:
    """Serve an app in a thread while the `with` lasts; `as` gives its URL.

    Raises `OSError` where it cannot listen, `RuntimeError` where it cannot serve.
    """
    expect_broken_answers()
    place = ListenAddress.parse(address)
    config = uvicorn.Config(
        app,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_GRACE_S,
    )
    server = _Server(config)
    with place.listen() as listener:
        thread = threading.Thread(
            target=server.run, args=([listener],), name="microbudget-proxy", daemon=True
        )
        thread.start()
        try:
            server.is_up.wait()
            if not server.started:
                raise RuntimeError(f"the proxy could not be served on {place}")
            yield url_of(place, listener)
        finally:
            server.should_exit = True
            thread.join()
    place.remove_socket()


def expect_broken_answers() -> None:
    """Log no error of the server for an answer that broke off upstream, and so here as well."""
    logging.getLogger("uvicorn.error").addFilter(_is_another)


def _is_another(record: logging.LogRecord) -> bool:
    return record.msg != _BROKEN_OFF
