"""What an alert says: in words, as a CloudEvent, for Alertmanager's receivers and for Slack."""

import hashlib
import json
from typing import Any, NamedTuple

from budget_core.until import until
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ops.words import amount_words, limit_text, time_text

TYPE = "io.github.microbudget."
_ALERT_NAMES = {
    "threshold": "BudgetThreshold",
    "forecast": "BudgetForecast",
    "alert_test": "BudgetAlertTest",
}
_NO_TIME = "0001-01-01T00:00:00Z"  # as Alertmanager says it
_ESCAPED_BY_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


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


def alert_body(format: str, message: AlertMessage, channel: str) -> tuple[str, bytes]:
    """Return the media type and the body of an alert for a channel of that name."""
    if format == "cloudevents":
        return "application/cloudevents+json", _json(_cloud_event(message))
    if format == "alertmanager":
        return "application/json", _json(_alertmanager(message, channel))
    return "application/json", _json({"text": message.text.translate(_ESCAPED_BY_SLACK)})


def _json(said: Any) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()


def _cloud_event(message: AlertMessage) -> dict[str, Any]:
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
    return {**found, "subject": event.account} if event.account else found


def _alertmanager(message: AlertMessage, channel: str) -> dict[str, Any]:
    """Return one firing alert, as version 4 of Alertmanager's webhooks has it."""
    event, said = message.event, message.event.details
    labels = {"alertname": _ALERT_NAMES[event.kind], "source": message.source}
    for name in ("axis", "window", "percent"):
        if name in said:
            labels[name] = str(said[name])
    if event.account:
        labels["account"] = event.account
    if "percent" in said:
        labels["severity"] = "critical" if said["percent"] >= 100 else "warning"
    annotations = {"summary": message.title, "description": message.text}
    alert = {
        "status": "firing",
        "labels": labels,
        "annotations": annotations,
        "startsAt": time_text(event.at),
        "endsAt": _NO_TIME,
        "generatorURL": "",
        "fingerprint": hashlib.sha256(message.id.encode()).hexdigest()[:16],
    }
    return {
        "version": "4",
        "groupKey": f"{{}}:{{id={json.dumps(message.id)}}}",
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": channel,
        "groupLabels": {"alertname": labels["alertname"]},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "alerts": [alert],
    }
