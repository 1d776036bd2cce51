"""What became of alerts, as the events of a ledger tell."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from budget_core.wall_clock import DAY
from budget_cpython.ledger.journal import LedgerEvent

CROSSINGS = ("threshold", "forecast")
ALERT = "alert"
SENDING, DELIVERED, FAILED, DEAD = "sending", "delivered", "failed", "dead"
_BALANCE = {"axis": str, "window": str, "cap": int, "spent": int, "resets_at": (int, type(None))}
_FIELDS: dict[str, dict[str, Any]] = {
    "threshold": {**_BALANCE, "percent": int},
    "forecast": {**_BALANCE, "empty_at": int},
    ALERT: {"of": str, "number": int, "to": str, "attempt": int, "state": str, "until": int},
}


class AlertStatus(NamedTuple):
    """The state of one event's alert on one channel.

    - `account`, `of`, `number`: the account of the event, its name and its number in the log.
    - `to`: the channel's name.
    - `attempt`: the number of the last attempt, from 1.
    - `state`: `sending`, `delivered`, `failed`, which is tried again, or `dead`, which is not.
    - `at`: the Unix second of that state; `until`: from when on the next attempt may be made.
    - `reason`: why the last attempt failed, such as `HTTP 503` or `ConnectError`; else empty.
    """

    account: str
    of: str
    number: int
    to: str
    attempt: int
    state: str
    at: int
    until: int
    reason: str

    @property
    def is_pending(self) -> bool:
        """Whether it is being sent, or is tried again."""
        return self.state in (SENDING, FAILED)


class AlertLog:
    """The crossings that were noted, and the status of their alerts."""

    def __init__(self) -> None:
        self.crossings: dict[int, LedgerEvent] = {}
        self.statuses: dict[tuple[int, str], AlertStatus] = {}
        self.last = 0  # number that was read

    def add(self, events: Iterable[LedgerEvent]) -> None:
        """Add events, in the order of their numbers.

        Those without the name that makes each the only one, or with other details, are left out.
        """
        for event in events:
            self.last = max(self.last, event.number)
            fields = _FIELDS.get(event.kind, {})
            known = event.name.startswith(f"{event.kind}/") and all(
                isinstance(event.details.get(name), kinds) for name, kinds in fields.items()
            )
            if known and event.kind in CROSSINGS:
                self.crossings[event.number] = event
            elif known and event.kind == ALERT:
                self._add_status(event)

    def _add_status(self, event: LedgerEvent) -> None:
        said = event.details
        new = AlertStatus(
            account=event.account,
            **{name: said[name] for name in _FIELDS[ALERT]},
            at=event.at,
            reason=str(said.get("reason", "")),
        )
        place = (new.number, new.to)
        old = self.statuses.get(place)
        if old is None or new.state == DELIVERED:
            self.statuses[place] = new
        elif old.state != DELIVERED and new.attempt >= old.attempt:
            self.statuses[place] = new  # a late failure of an earlier attempt changes nothing

    def forget_old(self, now: int) -> None:
        """Forget crossings that were noted over a day ago, unless their alerts are pending.

        What is not known any more is not sent.
        """
        pending = {number for (number, _), one in self.statuses.items() if one.is_pending}
        for number, event in list(self.crossings.items()):
            if event.at < now - DAY and number not in pending:
                del self.crossings[number]
        for place in [place for place in self.statuses if place[0] not in self.crossings]:
            del self.statuses[place]


def undelivered(events: Iterable[LedgerEvent], since: int = 0) -> list[AlertStatus]:
    """Return the alerts that are pending or dead, and are so since a Unix second, by number.

    The events are those of `ledger.events(kinds=["alert"])`, or more of them.
    """
    log = AlertLog()
    log.add(events)
    found = [one for one in log.statuses.values() if one.state != DELIVERED and one.at >= since]
    return sorted(found, key=lambda one: (one.number, one.to))
