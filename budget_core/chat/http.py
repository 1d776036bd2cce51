"""Send one HTTP request and read its answer within bounds, on asyncio streams."""

import asyncio

from budget_core.errors import ProviderError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import Any

_PIECE = 256
_MAX_LINE = 16_384
_DIGITS = b"0123456789abcdef"


def split_url(url: str) -> "tuple[bool, str, int, str]":
    """Return `(secure, host, port, path)` of an http or https URL; `ValueError` for any other."""
    scheme, mark, rest = url.partition("://")
    place, _, path = rest.partition("/")
    host, colon, port = place.partition(":")
    plain = all("!" <= char <= "~" and char not in "@?#[]" for char in url)
    if scheme not in ("http", "https") or not mark or not host or not plain:
        wanted = "https://host:port/path, without user, password, query or IPv6 address"
        raise ValueError("the URL must be like " + wanted)
    if colon and not (port.isdigit() and len(port) < 6 and 0 < int(port) < 65_536):
        raise ValueError("the URL's port must be a number from 1 to 65535")
    secure = scheme == "https"
    return secure, host, int(port) if colon else (443 if secure else 80), "/" + path


def tls_context(ca_file: str | None = None) -> "Any":
    """Return a TLS client context that verifies servers against the certificates in `ca_file`.

    Without a file CPython trusts the system's certificates, and MicroPython none.
    """
    try:
        import ssl
    except ImportError:
        ssl = __import__("tls")  # what small ports have of it
    if hasattr(ssl, "create_default_context"):
        return ssl.create_default_context(cafile=ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file is not None:
        with open(ca_file, "rb") as file:
            data = file.read()
        context.load_verify_locations(data + b"\0" if data.startswith(b"-----") else data)
    return context


class HttpExchange:
    """One request and its answer: `status`, then the body piece by piece.

    `timeout_s` bounds every wait for the network, `max_bytes` all that is read. Every failure is a
    `ProviderError`. Call `close` in any case.
    """

    def __init__(self, timeout_s: float, max_bytes: int) -> None:
        self.status = 0
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._seen = 0
        self._buffer = b""
        self._chunked = False
        self._rest: int | None = None  # what is to come of the body or chunk; None: all there is
        self._reader: Any = None
        self._writer: Any = None

    async def send(
        self,
        method: str,
        target: "tuple[bool, str, int, str]",
        headers: "list[str]",
        body: bytes,
        tls: "Any" = None,
    ) -> None:
        """Send a request to a target, as `split_url` returns it, and read the answer's head."""
        secure, host, port, path = target
        options = {"ssl": tls, "server_hostname": host} if secure else {}
        # MicroPython tries a name's first address only, and where that is ::1 few servers listen.
        place = "127.0.0.1" if host == "localhost" else host
        opening = asyncio.open_connection(place, port, **options)
        try:
            opened = await self._within(opening, f"connecting to {host}:{port}")
        except ProviderError as error:
            error.sent = False
            raise
        self._reader, self._writer = opened
        head = [f"{method} {path} HTTP/1.1", f"Host: {host}:{port}", "Connection: close"]
        head += headers + [f"Content-Length: {len(body)}", "", ""]
        await self._within(
            self._write("\r\n".join(head).encode() + body), f"sending to {host}:{port}"
        )
        while self.status < 200:  # what is below only announces the answer
            await self._read_head()

    @property
    def framed(self) -> bool:
        """Whether the body ends by its length or its chunks, not by the end of the connection."""
        return self._rest is not None

    async def read(self) -> bytes:
        """Return the next bytes of the body, and `b""` at its end."""
        if self._chunked and self._rest == 0:
            await self._next_chunk()
        if self._rest == 0:
            return b""
        if not self._buffer and not await self._more():
            if self._rest is None:
                return b""
            raise ProviderError(self.status, "the answer broke off")
        size = len(self._buffer) if self._rest is None else min(len(self._buffer), self._rest)
        piece, self._buffer = self._buffer[:size], self._buffer[size:]
        if self._rest is not None:
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
        try:
            return await asyncio.wait_for(waiting, self._timeout_s)
        except asyncio.TimeoutError:  # noqa: UP041 - MicroPython has no other
            trouble = f"no answer within {self._timeout_s} s while {doing}"
        except (OSError, ValueError) as error:  # a ValueError: no name to look up, no certificate
            trouble = f"connection trouble while {doing}: {str(error) or type(error).__name__}"
        raise ProviderError(self.status, trouble)

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def _more(self) -> bool:
        piece = await self._within(self._reader.read(_PIECE), "reading the answer")
        self._seen += len(piece)
        if self._seen > self._max_bytes:
            raise ProviderError(self.status, f"the answer is larger than {self._max_bytes} bytes")
        self._buffer += piece
        return bool(piece)

    async def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            if len(self._buffer) > _MAX_LINE or not await self._more():
                raise ProviderError(self.status, "the answer is not HTTP, or broke off")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.strip()

    async def _read_head(self) -> None:
        words = (await self._line()).split(b" ")
        if not words[0].startswith(b"HTTP/1.") or len(words) < 2 or len(words[1]) != 3:
            raise ProviderError(0, "the answer is not HTTP")
        self.status = self._number(words[1], 10)
        self._rest = None
        line = await self._line()
        while line:
            name, _, value = line.lower().partition(b":")
            if name == b"content-length":
                self._rest = self._number(value.strip(), 10)
            elif name == b"transfer-encoding" and value.strip() == b"chunked":
                self._chunked = True
            line = await self._line()
        if self.status in (204, 304):
            self._chunked = False
            self._rest = 0
        elif self._chunked:
            self._rest = 0

    async def _next_chunk(self) -> None:
        line = await self._line() or await self._line()  # a chunk before this one ends in a newline
        self._rest = self._number(line.lower().partition(b";")[0].strip(), 16)
        self._chunked = self._rest > 0

    def _number(self, digits: bytes, base: int) -> int:
        if 0 < len(digits) < 16 and all(digit in _DIGITS[:base] for digit in digits):
            return int(digits, base)
        raise ProviderError(self.status, "the answer's HTTP is malformed")
