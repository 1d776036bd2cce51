"""Where the service listens, and which names are this machine's own."""

import errno
import ipaddress
import os
import re
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

_BUFFER = 65_536  # bytes; a request and an answer fit
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]+)(?::([0-9]{1,5}))?", re.ASCII | re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Tell whether a name or address can only be this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_local(headers: Mapping[str, str]) -> None:
    """Raise `HTTPException` unless a server without keys may answer a request.

    It must name this machine, and no browser may make it for a page of another site.
    """
    check_host(headers)
    scheme, _, host = headers.get("origin", "http://localhost").partition("://")
    is_ours = scheme in ("http", "https") and _names_loopback(host)
    if not is_ours or headers.get("sec-fetch-site") == "cross-site":
        _refuse("without keys, pages of other sites are not served")


def check_host(headers: Mapping[str, str]) -> None:
    """Raise `HTTPException` unless a request names this machine.

    A name of another site may lead here, if its owner says so.
    """
    if not _names_loopback(headers.get("host", "")):
        _refuse("without keys, only localhost and loopback addresses are served")


def _refuse(text: str) -> NoReturn:
    from starlette.exceptions import HTTPException  # not loaded only to listen

    raise HTTPException(403, text)


@lru_cache(maxsize=16)  # most requests name the same host
def _names_loopback(host: str) -> bool:
    """Tell whether a `Host` header, with or without a port, is this machine."""
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found[1].strip("[]"))


def client_network(host: str) -> str:
    """Return a client's IPv4 address, or its IPv6 network: it has all addresses of that."""
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.version == 4:
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


@dataclass(frozen=True)
class ListenAddress:
    """A host and a port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    @classmethod
    def parse(cls, text: str) -> "ListenAddress":
        """Read `HOST:PORT`, `[IPv6]:PORT` or `unix:PATH`; `ValueError` for anything else."""
        if text.startswith("unix:") and len(text) > 5:
            return cls(path=os.path.abspath(text[5:]))
        found = _HOST.fullmatch(text)
        if found is None or found[2] is None or int(found[2]) > 65_535:
            raise ValueError(f"{text!r} is neither HOST:PORT, as in 127.0.0.1:8321, nor unix:PATH")
        return cls(found[1].strip("[]"), int(found[2]))

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return bool(self.path) or is_loopback(self.host)

    def listen(self) -> socket.socket:
        """Return a socket that listens here, a Unix socket for its owner alone; `OSError`."""
        if self.path:
            self._check_unused()
            self.remove_socket()
            before = os.umask(0o177)
            try:
                return socket.create_server(self.path, family=socket.AF_UNIX)
            finally:
                os.umask(before)
        both = ":" in self.host and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        address = (self.host, self.port)
        listener = socket.create_server(address, family=family, dualstack_ipv6=both)
        # Accepted connections inherit these: small answers are sent at once, connections whose
        # peer has vanished end, and little is kept for a client that does not read its answers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            listener.setsockopt(socket.SOL_SOCKET, buffer, _BUFFER)
        return listener

    def url(self, listener: socket.socket, is_ssl: bool = False) -> str:
        """Return the URL of what listens here."""
        if self.path:
            return str(self)
        host, port = listener.getsockname()[:2]
        return f"http{'s' * is_ssl}://{f'[{host}]' if ':' in host else host}:{port}"

    def _check_unused(self) -> None:
        """Raise `OSError` where another server listens at the path."""
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(self.path) == 0:
                raise OSError(errno.EADDRINUSE, "another server listens there")

    def remove_socket(self) -> None:
        """Remove a Unix socket at the path, but nothing else."""
        with suppress(FileNotFoundError):
            if self.path and stat.S_ISSOCK(os.lstat(self.path).st_mode):
                os.unlink(self.path)
