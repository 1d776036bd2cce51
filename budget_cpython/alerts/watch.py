"""The watch over a ledger's limits, for as long as a command or a service runs."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple
from uuid import uuid4

from budget_core.errors import BudgetError
from budget_core.log import log
from budget_cpython.alerts.channels import AlertChannel
from budget_cpython.alerts.crossings import CrossingWatch
from budget_cpython.alerts.delivery import AlertDelivery
from budget_cpython.alerts.messages import AlertMessage
from budget_cpython.alerts.sending import THREADS, AlertNotSentError, AlertSender
from budget_cpython.ledger.journal import JournaledLedger, LedgerEvent
from budget_cpython.ops.alert_log import DELIVERED

EVERY_S = 10.0
_CLOSING_S = 5.0


class AlertRound(NamedTuple):
    """The outcome of one look at a ledger.

    - `crossings`: those that nobody had noted before.
    - `delivered`, `failed`: attempts to send alerts, by how they ended.
    """

    crossings: int
    delivered: int
    failed: int


class AlertWatch:
    """Notes crossings of a ledger's limits, and delivers alerts of them to channels.

    Any number of processes may watch one ledger. No call waits for them. `clock` returns Unix
    seconds; `send` makes an attempt, by default over HTTP.
    """

    def __init__(
        self,
        ledger: JournaledLedger,
        channels: Sequence[AlertChannel],
        clock: Callable[[], float] = time.time,
        send: Callable[[AlertChannel, AlertMessage], None] | None = None,
    ) -> None:
        self._sender = None
        if send is None:
            self._sender = AlertSender(clock)
            send = self._sender.send
        self._crossings = CrossingWatch(ledger, channels, clock)
        self._delivery = AlertDelivery(ledger, channels, clock, send)

    def look_once(self) -> AlertRound:
        """Note crossings, make the attempts that are due, and wait for them.

        Raises the ledger's errors.
        """
        crossings = self._crossings.note_crossings()
        states = [one.result() for one in self._delivery.deliver(waits=True)]
        delivered = states.count(DELIVERED)
        return AlertRound(crossings, delivered, len([one for one in states if one]) - delivered)

    def look_until(self, stop: threading.Event, every_s: float = EVERY_S) -> None:
        """Look every `every_s` seconds until told to stop; errors are logged, once in a row."""
        failed = False
        while not stop.is_set():
            try:
                self._crossings.note_crossings()
                self._delivery.deliver()
            except Exception as error:  # noqa: BLE001 - the next look may succeed
                level = "warning" if isinstance(error, BudgetError) else "error"
                if not failed:
                    log(level, f"limits are not watched now: {type(error).__name__}: {error}")
                failed = True
            else:
                if failed:
                    log("info", "limits are watched again")
                failed = False
            stop.wait(every_s)

    def close(self) -> None:
        """Wait for the attempts that have begun, and close the connections."""
        self._delivery.close()
        if self._sender is not None:
            self._sender.close()


@contextmanager
def watching(
    ledger: JournaledLedger, channels: Sequence[AlertChannel], every_s: float = EVERY_S
) -> Iterator[None]:
    """Watch a ledger in a thread while the `with` lasts."""
    watch, stop = AlertWatch(ledger, channels), threading.Event()
    thread = threading.Thread(
        target=watch.look_until, args=(stop, every_s), name=THREADS, daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_CLOSING_S)  # an engine may hang
        watch.close()


def send_test(channels: Sequence[AlertChannel], at: int) -> Iterator[tuple[AlertChannel, str]]:
    """Send a test to each channel, and yield with it why that failed, empty where it did not.

    `at` is now, in Unix seconds. No ledger knows of it.
    """
    event = LedgerEvent("alert_test", "", {}, f"alert_test/{uuid4().hex}", at)
    sender = AlertSender()
    try:
        with ThreadPoolExecutor(1, THREADS) as thread:  # whose URLs are not logged
            for channel in channels:
                sent = thread.submit(sender.send, channel, AlertMessage(event, channel.source))
                error = sent.exception()
                if error is not None and not isinstance(error, AlertNotSentError):
                    raise error
                yield channel, "" if error is None else str(error)
    finally:
        sender.close()
