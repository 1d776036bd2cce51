"""Keep connections few, and none that asks for nothing: silent ones would shut everybody out."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

MAX_CONNECTIONS = 1000
FIRST_REQUEST_S = 10.0
NEXT_REQUEST_S = 40.0


class Connection(H11Protocol):
    """A connection of somebody, closed at once where there are `most_connections` already.

    A request's head has to be there within `first_request_s`, and the next one's within
    `next_request_s` of the answer before it, however slowly it comes.
    """

    most_connections = MAX_CONNECTIONS
    first_request_s = FIRST_REQUEST_S
    next_request_s = NEXT_REQUEST_S

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, or end it where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.abort()
        else:
            self._await_request(self.first_request_s)

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        if not self.transport.is_closing():
            self._await_request(self.next_request_s)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _await_request(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._close_without, self.cycle)

    def _close_without(self, cycle: "RequestResponseCycle | None") -> None:
        if self.cycle is cycle:
            self.transport.close()
