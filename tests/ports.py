"""Ports of this machine."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_port() -> Iterator[int]:
    """Keep a port of this machine, where nobody listens unless told to: no one else is given it."""
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # whoever is told does so too
        keeper.bind(("127.0.0.1", 0))
        yield keeper.getsockname()[1]
