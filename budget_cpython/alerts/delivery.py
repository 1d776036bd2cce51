"""The delivery of alerts: by one process at a time, with retries, as the log of a ledger says."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any, NamedTuple

from budget_core.errors import BudgetError
from budget_core.log import log
from budget_core.wall_clock import DAY
from budget_cpython.alerts.channels import AlertChannel
from budget_cpython.alerts.messages import AlertMessage
from budget_cpython.alerts.sending import THREADS, AlertNotSentError
from budget_cpython.ledger.journal import JournaledLedger, LedgerEvent
from budget_cpython.ops.alert_log import (
    ALERT,
    CROSSINGS,
    DEAD,
    DELIVERED,
    FAILED,
    SENDING,
    AlertLog,
)

BACKOFF_S = (10, 60, 300, 1800, 7200, 21_600)  # after each attempt but the last one
LEASE_S = 60  # of an attempt whose process may have died
_AT_ONCE = 4  # attempts on a channel
_PAGE = 1000  # events


class DueAlert(NamedTuple):
    """An alert that may be sent now: its crossing, its channel and the number of the attempt."""

    crossing: LedgerEvent
    channel: AlertChannel
    attempt: int

    @property
    def place(self) -> tuple[int, str]:
        """What tells alerts apart."""
        return self.crossing.number, self.channel.name


class AlertDelivery:
    """Sends alerts of the crossings in a ledger's log to the channels that want them.

    Before each attempt it is noted in the log, under a name that only one event has: the process
    whose note is the first sends. If its outcome is not in the log when its lease is over, any
    process may make the next attempt, with the same id.

    Each channel has threads of its own: one that does not answer delays no other. `send` makes an
    attempt; `clock` returns Unix seconds.
    """

    def __init__(
        self,
        ledger: JournaledLedger,
        channels: Sequence[AlertChannel],
        clock: Callable[[], float],
        send: Callable[[AlertChannel, AlertMessage], None],
    ) -> None:
        self._ledger = ledger
        self._channels = channels
        self._clock = clock
        self._send = send
        self._log = AlertLog()
        self._lock = Lock()
        self._busy: set[tuple[int, str]] = set()
        self._threads = {
            one.name: ThreadPoolExecutor(_AT_ONCE, f"{THREADS}-{one.name}") for one in channels
        }

    def deliver(self, waits: bool = False) -> "list[Future[str]]":
        """Begin the attempts that are due; each returns its state, empty where another was first.

        With `waits` all of them have ended. Raises the ledger's errors.
        """
        self._read()
        begun = []
        for due in list(self._due(int(self._clock()))):
            with self._lock:
                if due.place in self._busy:
                    continue
                self._busy.add(due.place)
            begun.append(self._threads[due.channel.name].submit(self._attempt, due))
        if waits:
            wait(begun)
        return begun

    def close(self) -> None:
        """Wait for the attempts that have begun; those that have not are left to others."""
        for pool in self._threads.values():
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in self._threads.values():
            pool.shutdown()

    def _read(self) -> None:
        kinds = (*CROSSINGS, ALERT)
        newest = self._ledger.events(kinds=kinds, most=1)
        if self._log.last > (newest[0].number if newest else 0):
            self._log = AlertLog()  # an engine that lost its data numbers events from 1 again
        while page := self._ledger.events(kinds=kinds, after=self._log.last, most=_PAGE):
            self._log.add(page)
        self._log.forget_old(int(self._clock()))

    def _due(self, now: int) -> Iterator[DueAlert]:
        for number, crossing in self._log.crossings.items():
            for channel in self._channels:
                status = self._log.statuses.get((number, channel.name))
                if status is None:
                    if crossing.at >= now - DAY and channel.wants(crossing):
                        yield DueAlert(crossing, channel, 1)
                elif status.is_pending and status.until <= now:
                    yield DueAlert(crossing, channel, status.attempt + 1)

    def _attempt(self, due: DueAlert) -> str:
        try:
            return self._claim_and_send(due)
        except BudgetError as error:
            log("warning", f"an alert to {due.channel.name} could not be noted: {error}")
            return ""
        finally:
            with self._lock:
                self._busy.discard(due.place)

    def _claim_and_send(self, due: DueAlert) -> str:
        now = int(self._clock())
        if due.attempt > len(BACKOFF_S) + 1:  # the process of the last attempt has died
            return self._end(due, DEAD, now, "no outcome is known")
        if not self._note(due, SENDING, now + LEASE_S):
            return ""
        name = due.channel.name
        try:
            self._send(due.channel, AlertMessage(due.crossing, due.channel.source))
        except AlertNotSentError as error:
            is_last = due.attempt > len(BACKOFF_S)
            text = f"{'the last attempt' if is_last else f'attempt {due.attempt}'} of an alert to "
            log("error" if is_last else "warning", f"{text}{name} failed: {error}")
            if is_last:
                return self._end(due, DEAD, now, str(error))
            rest = max(BACKOFF_S[due.attempt - 1], error.retry_after_s)
            return self._end(due, FAILED, int(self._clock()) + rest, str(error))
        return self._end(due, DELIVERED, now)

    def _end(self, due: DueAlert, state: str, until: int, reason: str = "") -> str:
        self._note(due, state, until, **{"reason": reason} if reason else {})
        return state

    def _note(self, due: DueAlert, state: str, until: int, **more: Any) -> bool:
        """Note a state of an attempt; tell whether nobody had noted it before."""
        details = {
            "of": due.crossing.name,
            "number": due.crossing.number,
            "to": due.channel.name,
            "attempt": due.attempt,
            "state": state,
            "until": until,
            **more,
        }
        name = f"alert/{due.crossing.number}/{due.channel.name}/{due.attempt}"
        name = name if state == SENDING else f"{name}/{state}"
        return bool(self._ledger.note([LedgerEvent(ALERT, due.crossing.account, details, name)])[0])
