"""The proxy of a run, loaded in the background while its command starts."""

import select
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from importlib.util import find_spec
from threading import Event, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budget_cpython.run.gate import ProxyGate

_HEAD_START_S = 0.25  # for a command that calls nothing; one that ends within it needs no proxy
_NEEDED = ("httpx", "starlette", "uvicorn", "httptools")
# what takes long, in parts, between which the command's end is noticed
_PARTS = (
    "asyncio",
    "httpx",
    "starlette.applications",
    "uvicorn",
    "pydantic",
    "genai_prices",
    "budget_cpython.proxy.app",
    "budget_cpython.web.server",
)


def check_installed() -> None:
    """Raise `ModuleNotFoundError` for a missing package that the proxy needs; none is loaded."""
    for name in _NEEDED:
        if find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


class BackgroundProxy:
    """A `with` in which a thread loads a run's proxy and then serves it, on a socket that listens.

    `make` loads the proxy and returns its gate, once a client connects or the command has had its
    head start. Requests wait in the socket until then. If the proxy cannot be loaded or served, the
    socket is closed, so no call passes uncounted; `error` is the reason, and `fail` is called.
    """

    def __init__(
        self,
        make: "Callable[[], ProxyGate]",
        listener: socket.socket,
        url: str,
        fail: Callable[[], object],
    ) -> None:
        self.gate: ProxyGate | None = None
        self.error: Exception | None = None
        self._make = make
        self._listener = listener
        self._url = url
        self._fail = fail
        self._over = Event()
        self._ended, self._end = socket.socketpair()
        self._served = ExitStack()
        self._thread = Thread(target=self._load, name="microbudget-load", daemon=True)

    def __enter__(self) -> "BackgroundProxy":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._end.close()
        self._thread.join()
        self._served.close()
        self._ended.close()

    def _load(self) -> None:
        select.select([self._listener, self._ended], [], [], _HEAD_START_S)
        if self._over.is_set():
            return
        try:
            for name in _PARTS:
                with suppress(ImportError):  # raised again where it is needed
                    import_module(name)
                if self._over.is_set():
                    return
            from budget_cpython.web.server import serving

            self.gate = self._make()
            self._served.enter_context(serving(self.gate, self._listener, self._url))
        except BaseException as error:  # noqa: BLE001 - raised where the command has ended
            self._listener.close()
            if self._over.is_set():
                return  # the command has ended by itself, as in its head start
            if not isinstance(error, Exception):
                error = RuntimeError(f"the proxy could not be loaded: {error!r}")
            self.error = error
            self._fail()
