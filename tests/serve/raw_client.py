"""Connections to a service that are written and read byte by byte."""

import asyncio
import socket
import struct
from types import TracebackType

from tests.serve.support import PATIENCE

_RESET = struct.pack("ii", 1, 0)


class GoneError(Exception):
    """The service has ended the connection."""


def post(url: str, key: str, body: bytes) -> bytes:
    """Return the bytes of a request."""
    head = f"POST {url} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    if key:
        head += f"Authorization: Bearer {key}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connection:
    """A connection from an address of this machine; its methods raise `GoneError`."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        self._port = port
        self._address = address
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> "Connection":
        try:
            self._reader, self._writer = await asyncio.open_connection(
                "127.0.0.1", self._port, local_addr=(self._address, 0)
            )
        except OSError as error:
            raise GoneError from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.transport.abort()

    async def send(self, data: bytes) -> None:
        """Send bytes once the ones before are on their way."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise GoneError from error

    async def read(self, most: int) -> bytes:
        """Read some bytes."""
        try:
            return await self._reader.read(most)
        except OSError as error:
            raise GoneError from error

    async def read_all(self, seconds: float) -> bytes:
        """Read until the service ends the connection, or some seconds have passed."""
        said = b""
        try:
            async with asyncio.timeout(seconds):
                while piece := await self._reader.read(65_536):
                    said += piece
        except OSError:  # a TimeoutError as well
            pass
        return said

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return the status and the body of its answer."""
        await self.send(request)
        try:
            async with asyncio.timeout(PATIENCE):
                head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
                return int(head[9:12]), await self._reader.readexactly(length)
        except (OSError, EOFError) as error:
            raise GoneError from error

    def reset(self) -> None:
        """End the connection without a farewell."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.transport.abort()
