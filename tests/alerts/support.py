"""What the tests of alerts share: a receiver of webhooks, and a watched ledger."""

import base64
import json
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from standardwebhooks.webhooks import Webhook

from budget_core.ledger.limit import Limit
from budget_cpython.alerts.channels import AlertChannel
from budget_cpython.alerts.messages import AlertMessage
from budget_cpython.alerts.sending import AlertSender
from budget_cpython.alerts.signature import signing_key
from budget_cpython.alerts.watch import AlertWatch
from tests.ledger.patience import NO_HURRY
from tests.proxy.support import Behind, Request
from tests_micro.support import FakeClock

NOON = 1_772_366_400  # 2026-03-01 12:00 UTC
SECRET = "whsec_" + base64.b64encode(b"a key of 32 bytes, for the tests").decode()
KEY = signing_key("secret", SECRET)


class Receiver(Behind):
    """A server that takes alerts; `answer` returns the status of each, by the request's number."""

    def __init__(self, answer: Callable[[int], int] = lambda number: 200, **headers: str) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.ids: list[str] = []
        self._signed: list[tuple[Any, bytes]] = []
        self._lock = threading.Lock()

        def act(request: Request) -> None:
            if len(request.body) < int(request.headers["content-length"]):
                return  # its sender was killed
            with self._lock:
                self.bodies.append(json.loads(request.body))
                self.ids.append(request.headers["webhook-id"])
                self._signed.append((request.headers, request.body))
                number = len(self.ids)
            request.reply({}, answer(number), **headers)

        super().__init__(act)

    def serve_https(self, certificate: Path, key: Path) -> None:
        """Have the next connections use TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)

    def check_signatures(self) -> None:
        """Assert that each request is signed, whenever that was."""
        for headers, body in self._signed:
            at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
            wanted = Webhook(SECRET).sign(headers["webhook-id"], at, body.decode())
            assert headers["webhook-signature"] == wanted


def channel(url: str, name: str = "ops", **more: Any) -> AlertChannel:
    """Return a channel that signs with `SECRET`."""
    return AlertChannel(name, url, **{"key": KEY, "at": (50, 80, 100), "forecast": False, **more})


def calls(ledger: Any, path: str, cap: int | None, spent: int, window: str = "day") -> None:
    """Give an account a limit of calls, and spend some."""
    ledger.set_limits(path, [Limit("calls", cap, window)])
    if spent:
        ledger.charge(path, {"calls": spent})


def watch_of(ledger: Any, clock: FakeClock, *channels: AlertChannel, **more: Any) -> AlertWatch:
    """Return a watch over a ledger by a clock that a test moves."""
    return AlertWatch(ledger, channels, clock, **{"send": patient(clock), **more})


def patient(clock: Callable[[], float]) -> Callable[[AlertChannel, AlertMessage], None]:
    """Return what sends alerts, and has time for a busy machine."""
    return AlertSender(clock, NO_HURRY).send
