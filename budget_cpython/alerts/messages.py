"""The text of an alert, in words and as a CloudEvent."""

import hashlib
import json
from typing import NamedTuple

from budget_core.until import until
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ops.words import amount_words, limit_text, time_text

TYPE = "io.github.microbudget."
CLOUD_EVENT = "application/cloudevents+json"


class AlertMessage(NamedTuple):
    """An event of a ledger that a channel is told of, and who tells it."""

    event: LedgerEvent
    source: str

    @property
    def id(self) -> str:
        """The id of this event at every attempt and on every channel of the same source."""
        event = self.event
        place = json.dumps([self.source, event.name, event.number, event.at])
        return f"msg_{hashlib.sha256(place.encode()).hexdigest()[:32]}"

    @property
    def title(self) -> str:
        """A few words, for what shows a title."""
        return f"Budget of {self.event.account}" if self.event.account else "Budget alerts"

    @property
    def text(self) -> str:
        """One sentence or two."""
        event, said = self.event, self.event.details
        if event.kind == "alert_test":
            return "This is a test of a channel for alerts of budgets."
        limit = limit_text(said["axis"], said["cap"], said["window"])
        spent = amount_words(said["axis"], said["spent"])
        if event.kind == "forecast":
            empty = until(said["empty_at"], event.at)
            first = f"{event.account} will have spent {limit} at {empty}: {spent} is spent."
        else:
            first = f"{event.account} has reached {said['percent']} % of {limit}: {spent} is spent."
        resets_at = said["resets_at"]
        if resets_at is None:
            return first
        ends = "ended" if resets_at <= event.at else "resets"
        return f"{first} It {ends} at {until(resets_at, event.at)}."


def cloud_event(message: AlertMessage) -> bytes:
    """Return the JSON of an alert as a CloudEvent 1.0, whose media type is `CLOUD_EVENT`."""
    event = message.event
    found = {
        "specversion": "1.0",
        "id": message.id,
        "source": message.source,
        "type": TYPE + event.kind,
        "time": time_text(event.at),
        "datacontenttype": "application/json",
        "data": {"account": event.account, **event.details, "text": message.text},
    }
    if event.account:
        found["subject"] = event.account
    return json.dumps(found, separators=(",", ":")).encode()
