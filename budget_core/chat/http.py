"""Send one HTTP request and read its answer within bounds, on asyncio streams."""

import asyncio

from budget_core.errors import ProviderError, refuse
from budget_core.waking import cancellations, raise_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any

_PIECE = 256
_UNKNOWN = 1 << 40
_DIGITS = b"0123456789abcdef"


def _is_visible(text: str) -> bool:
    return "!" <= min(text) <= max(text) <= "~"


class HttpEndpoint:
    """An http or https URL with what every request to it needs.

    `key` is sent as a bearer token and is in no message. `timeout_s` bounds every wait for the
    network, up to a day; `max_bytes` bounds every answer, its head included. `tls` is a context for
    https, by default `tls_context()`. Raises `ValueError` if one of them is malformed.
    """

    def __init__(
        self, url: str, key: str | None, timeout_s: float, max_bytes: int, tls: "Any"
    ) -> None:
        scheme, _, rest = url.partition("://")
        place, _, path = rest.partition("/")
        self.host, colon, port = place.partition(":")
        wrong = scheme not in ("http", "https") or not self.host or not _is_visible(url)
        for char in "@?#[]":
            wrong = wrong or char in url
        if wrong:
            wanted = "https://host:port/path, without user, password, query or IPv6 address"
            raise ValueError("the URL must be like " + wanted)
        if colon and not (port.isdigit() and len(port) < 6 and 0 < int(port) < 65_536):
            raise ValueError("the URL's port must be a number from 1 to 65535")
        if key and not (isinstance(key, str) and _is_visible(key)):
            raise ValueError("the key must be visible ASCII characters, without blanks")
        if not isinstance(timeout_s, (int, float)) or not 0 < timeout_s <= 86_400:
            refuse("timeout_s", "above 0 and at most 86,400", timeout_s)
        if not isinstance(max_bytes, int) or max_bytes < 1:
            refuse("max_response_bytes", "1 or more", max_bytes)
        self.secure = scheme == "https"
        self.port = int(port) if colon else (443 if self.secure else 80)
        self.path = ("/" + path).rstrip("/")
        self.timeout_s = timeout_s
        self.max_bytes = max_bytes
        self.tls = tls
        if self.secure and tls is None:
            from budget_core.chat.tls import tls_context  # loaded for the first https URL

            self.tls = tls_context()
        self.headers = ["Content-Type: application/json"]
        if key:
            self.headers.append("Authorization: Bearer " + key)


class HttpExchange:
    """One request and its answer: `status`, then the body piece by piece.

    `framed` tells whether the body ends by its length or its chunks; else it ends with the
    connection, and may be cut short. `advice` has the answer's headers on retries. Every failure is
    a `ProviderError`. Call `close` in any case. `patience_s` is how much longer than `timeout_s`
    the answer may take to come.
    """

    patience_s: float = 0

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self.status = 0
        self.framed = False
        self.advice: dict[bytes, bytes] = {}
        self._endpoint = endpoint
        self._seen = 0
        self._buffer = b""
        self._chunked = False
        self._rest = _UNKNOWN  # bytes to come of the body, or of its chunk
        self._reader: Any = None
        self._writer: Any = None
        self._cancellations = 0

    async def send(self, method: str, path: str, body: "Callable[[], Iterable[bytes]]") -> None:
        """Send a request and read the head of its answer.

        `body()` returns its pieces; it is called twice: to count them, and to send them.

        An error with `sent` false says that the request did not arrive whole. MicroPython notices
        only while it sends that no connection was made.
        """
        to = self._endpoint
        size = sum([len(piece) for piece in body()])
        options = {"ssl": to.tls, "server_hostname": to.host} if to.secure else {}
        # MicroPython tries a name's first address only, and where that is ::1 few servers listen.
        place = "127.0.0.1" if to.host == "localhost" else to.host
        opening = asyncio.open_connection(place, to.port, **options)
        head = [f"{method} {path} HTTP/1.1", f"Host: {to.host}:{to.port}", "Connection: close"]
        head += to.headers + [f"Content-Length: {size}", "", ""]
        self._cancellations = cancellations()
        try:
            self._reader, self._writer = await self._within(opening, "connecting to")
            raise_lost(self._cancellations)
            await self._within(self._write("\r\n".join(head).encode(), body()), "sending to")
            raise_lost(self._cancellations)
        except ProviderError as error:
            error.sent = False
            raise
        while self.status < 200:  # a status below 200 only announces the answer
            await self._read_head()

    async def read(self) -> bytes:
        """Return the next bytes of the body, and `b""` at its end."""
        if self._chunked and not self._rest:
            line = await self._line() or await self._line()  # the chunk before ends in a newline
            self._rest = self._number(line.partition(b";")[0].strip(), 16)
            self._chunked = self._rest > 0
        if self._rest and not self._buffer and not await self._more() and self.framed:
            raise ProviderError(self.status, "the answer broke off")
        size = min(self._rest, len(self._buffer))  # chips slice up to 2**31 only
        piece, self._buffer = self._buffer[:size], self._buffer[size:]
        self._rest -= size
        return piece

    async def read_all(self) -> bytes:
        """Return the whole body."""
        pieces = [await self.read()]
        while pieces[-1]:
            pieces.append(await self.read())
        return b"".join(pieces)

    async def close(self) -> None:
        """Close the connection at once, whatever state it is in."""
        if self._writer is None:
            return
        transport = getattr(self._writer, "transport", None)
        if transport is not None:  # CPython's `close` waits for the other side
            transport.abort()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass  # the answer is already here, or its error on its way

    async def _within(self, waiting: "Awaitable[Any]", doing: str) -> "Any":
        to = self._endpoint
        doing = f"while {doing} {to.host}:{to.port}"
        try:
            return await asyncio.wait_for(waiting, to.timeout_s + self.patience_s)
        except asyncio.TimeoutError:  # noqa: UP041 - MicroPython has no other
            trouble = f"no answer within {to.timeout_s} s {doing}"
        except (OSError, ValueError) as error:  # a ValueError: no name to look up, no certificate
            trouble = f"connection trouble {doing}: {str(error) or type(error).__name__}"
        raise ProviderError(self.status, trouble)

    async def _write(self, head: bytes, body: "Iterable[bytes]") -> None:
        """Write a head and a body part by part: all of it may be too much for a chip."""
        waiting = head
        for piece in body:
            if len(waiting) + len(piece) > _PIECE:
                self._writer.write(waiting)
                await self._writer.drain()
                waiting = b""
            waiting += piece
        self._writer.write(waiting)
        await self._writer.drain()

    async def _more(self) -> bool:
        piece = await self._within(self._reader.read(_PIECE), "reading from")
        raise_lost(self._cancellations)
        self._seen += len(piece)
        most = self._endpoint.max_bytes
        if self._seen > most:
            raise ProviderError(self.status, f"the answer is larger than {most} bytes")
        self._buffer += piece
        return bool(piece)

    async def _line(self) -> bytes:
        """Return the next line in lower case."""
        while b"\n" not in self._buffer:
            if not await self._more():
                raise ProviderError(self.status, "the answer is not HTTP, or broke off")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.strip().lower()

    async def _read_head(self) -> None:
        words = (await self._line()).split(b" ")
        if not words[0].startswith(b"http/1.") or len(words) < 2 or len(words[1]) != 3:
            raise ProviderError(0, "the answer is not HTTP")
        self.status = self._number(words[1], 10)
        self.framed, self._rest = False, _UNKNOWN
        line = await self._line()
        while line:
            name, _, value = line.partition(b":")
            if name == b"content-length":
                self.framed, self._rest = True, self._number(value.strip(), 10)
            elif name == b"transfer-encoding" and value.strip() == b"chunked":
                self.framed = self._chunked = True
            elif name in (b"retry-after", b"x-should-retry"):
                self.advice[name] = value.strip()
            line = await self._line()
        if self._chunked:
            self._rest = 0

    def _number(self, digits: bytes, base: int) -> int:
        if 0 < len(digits) < 16 and not digits.strip(_DIGITS[:base]):
            return int(digits, base)
        raise ProviderError(self.status, "the answer's HTTP is malformed")
