"""Run the service until it is told to stop: where it listens, and how it ends."""

import copy
import logging
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

try:
    import uvicorn
    from uvicorn.config import LOGGING_CONFIG
except ModuleNotFoundError as error:
    text = "serving a ledger needs uvicorn: pip install 'microbudget[serve]'"
    raise ImportError(text) from error

from budget_cpython.serve.connections import Connection
from budget_cpython.serve.local import is_loopback


class ListenError(Exception):
    """There is no listening there; the text says where, and why."""


@dataclass(frozen=True)
class Place:
    """Where to listen: a host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> "Place":
        """Read `HOST:PORT`, `[IPv6]:PORT` or `unix:PATH`; `ValueError` for anything else."""
        if text.startswith("unix:") and len(text) > 5:
            return cls(path=os.path.abspath(text[5:]))
        host, colon, port = text.rpartition(":")
        bracketed = host[:1] == "[" and host[-1:] == "]"
        host = host[1:-1] if bracketed else host
        whole = port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65_536
        if not (host and colon and whole and bracketed == (":" in host)):
            raise ValueError(f"{text!r} is neither HOST:PORT, as in 127.0.0.1:8321, nor unix:PATH")
        return cls(host, int(port))

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return bool(self.path) or is_loopback(self.host)

    def open(self) -> socket.socket:
        """Return a socket that listens there; `ListenError` where that cannot be."""
        try:
            return self._open_path() if self.path else self._open_port()
        except OSError as error:
            text = f"cannot listen on {self}: {error.strerror or error}"
            raise ListenError(text) from error

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else f"{self.host}:{self.port}"

    def _open_port(self) -> socket.socket:
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        # asyncio sends small answers at once only where the protocol is named, and delays else.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(512)
        except BaseException:
            listener.close()
            raise
        return listener

    def _open_path(self) -> socket.socket:
        _remove_dead(self.path)
        listener = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)  # nobody else may connect, from the first moment on
        try:
            listener.bind(self.path)
            listener.listen(512)
        except BaseException:
            listener.close()
            raise
        finally:
            os.umask(before)
        return listener


def run_service(
    app: Any,
    listener: socket.socket,
    place: Place,
    *,
    grace: float,
    access_log: bool = False,
    tls: "tuple[str, str | None] | None" = None,
    say: Callable[[str], None] = print,
) -> int:
    """Serve until SIGTERM or SIGINT, and then until what was asked is answered, or `grace` s.

    Returns the exit code. A second Ctrl-C ends it at once. `say` is told the URL once requests
    are answered.
    """
    config = uvicorn.Config(
        app,
        lifespan="on",
        log_level="warning",
        log_config=_logs(),
        access_log=access_log,
        proxy_headers=False,
        server_header=False,
        http=Connection,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(grace)),
        ssl_certfile=tls and tls[0],
        ssl_keyfile=tls and tls[1],
        ws="none",
    )
    logging.getLogger("uvicorn.access").setLevel(logging.INFO)
    server = _Server(config, lambda: say(_url(listener, place, tls is not None)))
    before = {number: signal.signal(number, _stop_quietly) for number in _SIGNALS}
    try:
        server.run(sockets=[listener])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        listener.close()
        if place.path:
            with suppress(OSError):  # it is another's by now
                _remove_dead(place.path)
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: "list[socket.socket] | None" = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_start()


def _logs() -> dict[str, Any]:
    """Return uvicorn's logging, but nothing of it where the URL is printed."""
    found = copy.deepcopy(LOGGING_CONFIG)
    found["handlers"]["access"]["stream"] = "ext://sys.stderr"
    return found


_SIGNALS: Sequence[int] = (signal.SIGINT, signal.SIGTERM)


def _stop_quietly(number: int, frame: Any) -> None:
    """Take the signal that the server heeded and raises again: it has done what it asks for."""


def _url(listener: socket.socket, place: Place, secure: bool) -> str:
    if place.path:
        return str(place)
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http{'s' if secure else ''}://{shown}:{port}"


def _remove_dead(path: str) -> None:
    """Remove a socket that nobody listens on any more; `OSError` where somebody does."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(f"{path} is there, and no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
    raise OSError("somebody else listens there")


def warn(text: str) -> None:
    """Say what is better not left so."""
    print(f"warning: {text}", file=sys.stderr, flush=True)
