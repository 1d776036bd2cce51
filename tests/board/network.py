"""The network of an emulated board: a radio, and endpoints behind TLS."""

import ssl
from contextlib import suppress
from socket import SHUT_WR, create_connection, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

from scripted_model import ScriptedEndpoint
from tests.paths import ROOT

DATA = ROOT / "tests/data"
PASSWORD = "pass-Word-1"  # noqa: S105 - made up
_RADIO = """
STA_IF = 0
class WLAN:
    def __init__(self, interface):
        self.joined = {joined}
    def active(self, on): pass
    def disconnect(self): pass
    def connect(self, name, password):
        self.joined = {joins} is None and (name, password) == {known}
    def isconnected(self):
        return self.joined
    def status(self, what=None):
        return {signal} if what == "rssi" else {joins}
    def ifconfig(self):
        return ("192.168.1.7", "255.255.255.0", "192.168.1.1", "192.168.1.1")
"""


def radio(
    name: str = "garden",
    joined: bool = False,
    joins: int | None = None,
    signal: int | None = -50,
) -> str:
    """Return the module `network` of a board in reach of one Wi-Fi, with `PASSWORD`.

    `joins` is the status of an attempt, `None` where it joins.
    """
    return _RADIO.format(known=(name, PASSWORD), joined=joined, joins=joins, signal=signal)


class Encrypted(ThreadingTCPServer):
    """A port that speaks TLS and passes on what comes to an endpoint, and its answers."""

    daemon_threads = True

    def __init__(self, endpoint: ScriptedEndpoint, certificate: str) -> None:
        self.target = ("127.0.0.1", int(endpoint.root_url.rpartition(":")[2]))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(DATA / f"{certificate}.pem", DATA / f"{certificate}.key")
        super().__init__(("127.0.0.1", 0), Passing)
        Thread(target=self.serve_forever, daemon=True).start()

    def server_close(self) -> None:
        self.shutdown()
        super().server_close()

    @property
    def base_url(self) -> str:
        return f"https://localhost:{self.server_address[1]}/v1"


class Passing(BaseRequestHandler):
    """A connection to it."""

    def handle(self) -> None:
        assert isinstance(self.server, Encrypted)
        with (
            suppress(OSError),
            create_connection(self.server.target) as plain,
            self.server.context.wrap_socket(self.request, server_side=True) as secret,
        ):
            back = Thread(target=self.pass_on, args=(plain, secret), daemon=True)
            back.start()
            self.pass_on(secret, plain)
            back.join()

    def pass_on(self, source: socket, target: socket) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                target.sendall(data)
            target.shutdown(SHUT_WR)
