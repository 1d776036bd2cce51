"""Bound the service's connections: their number, and the time that one may make no progress."""

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from budget_cpython.serve.addresses import client_network

ENDS_AT_STOP = "microbudget.ends_at_stop"  # in the scope of a request that has no end of its own
MAX_HEADERS = 16_384  # bytes of a request's first line and headers
_OTHER_FILES = 128  # of the engine, the connections to it, and the process
log = logging.getLogger("microbudget.serve")


@dataclass(frozen=True)
class ConnectionLimits:
    """At most `total` connections, `per_address` of one address, `idle_s` without progress."""

    total: int
    per_address: int
    idle_s: float


def allow_connections(count: int) -> int:
    """Let the process open files for so many connections; return how many the system allows."""
    try:
        import resource
    except ImportError:  # on Windows
        return count
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = count + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= files:
        return count
    if hard != resource.RLIM_INFINITY:
        files = min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    return max(1, files - _OTHER_FILES)


class _Parser(h11.Connection):
    """A parser that bounds heads that arrive whole, too: h11 bounds those that it waits for."""

    def next_event(self) -> Any:
        event = super().next_event()
        lines = getattr(event, "headers", ())  # of a request, and after a body in chunks
        size = len(getattr(event, "target", b"")) + sum(
            len(name) + len(text) for name, text in lines
        )
        if size > MAX_HEADERS:
            raise h11.RemoteProtocolError(f"headers have at most {MAX_HEADERS} bytes")
        return event


class BoundedHeads(H11Protocol):
    """A connection whose requests have at most `MAX_HEADERS` bytes of headers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _Parser(h11.SERVER, MAX_HEADERS)

    def shutdown(self) -> None:
        """Await the answer that is being given, but end one that would not end by itself."""
        super().shutdown()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete and cycle.scope.get(ENDS_AT_STOP):
            self.transport.close()


class LimitedConnection(BoundedHeads):
    """A connection that ends if it makes no progress, or if its place is needed.

    The beginning of a request, a finished answer and a write that is blocked or continues are
    progress. A request that is being worked on ends for neither reason.
    """

    def __init__(self, limits: ConnectionLimits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self.progress_at = self.loop.time()
        self.network: str | None = None

    @property
    def is_working(self) -> bool:
        """Whether a whole request is there, and nothing but the service delays its answer."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return False
        return not self.flow.write_paused

    def worth(self) -> tuple[bool, bool, float]:
        """Return a key that sorts first the connection to end first: it pipelines, or stalls."""
        is_paused = self.flow.read_paused or self.flow.write_paused
        return not is_paused, self.is_working, self.progress_at

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; where there are too many, end the one that has made no progress for longest."""
        super().connection_made(transport)
        self.network = client_network(self.client[0]) if self.client else None
        self._watch()
        crowd = self._crowd()
        if crowd:
            min(crowd, key=LimitedConnection.worth).end("its place was needed")

    def data_received(self, data: bytes) -> None:
        """Take a request's bytes; only the first ones after an answer are progress."""
        if self.timeout_keep_alive_task is not None:
            self.progress_at = self.loop.time()
        super().data_received(data)

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is not HTTP; what the app answers to it is dropped."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """Await the next request."""
        self.progress_at = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Await a client that does not read."""
        self.progress_at = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Continue with a client that reads again."""
        self.progress_at = self.loop.time()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the watch."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def end(self, reason: str) -> None:
        """Close the connection at once, also where its client does not read."""
        log.info("closed a connection of %s: %s", self.network or "a local client", reason)
        self.connections.discard(self)
        self.transport.abort()

    def _crowd(self) -> "list[LimitedConnection]":
        """Return the connections one of which must end, if there are too many."""
        everyone = cast("list[LimitedConnection]", list(self.connections))
        same = [one for one in everyone if one.network == self.network]
        if self.network is not None and len(same) > self._limits.per_address:
            return same
        return everyone if len(everyone) > self._limits.total else []

    def _watch(self) -> None:
        now = self.loop.time()
        if self.is_working:
            self.progress_at = now
        left = self.progress_at + self._limits.idle_s - now
        if left > 0:
            self._timer = self.loop.call_later(left, self._watch)
        else:
            self.end(f"no progress for {self._limits.idle_s:g} s")
