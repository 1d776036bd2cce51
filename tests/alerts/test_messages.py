"""What receivers are sent, read by the packages of their formats."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from budget_cpython.alerts.messages import CLOUD_EVENT, AlertMessage, cloud_event
from budget_cpython.alerts.signature import signed_headers
from budget_cpython.ledger.journal import LedgerEvent
from tests.alerts.support import KEY, NOON, SECRET

SPENT: dict[str, Any] = {
    "axis": "nano_usd",
    "window": "day",
    "begins_at": NOON - 43_200,
    "resets_at": NOON + 43_200,
    "cap": 5 * 10**9,
    "spent": 4_100_000_000,
}
THRESHOLD = LedgerEvent("threshold", "org/team", {**SPENT, "percent": 80}, "threshold/1", NOON, 7)
FORECAST = LedgerEvent(
    "forecast", "org/team", {**SPENT, "empty_at": NOON + 13_200}, "forecast/1", NOON, 8
)
TEST = LedgerEvent("alert_test", "", {}, "alert_test/1", NOON)
EVENTS = (THRESHOLD, FORECAST, TEST)


@pytest.mark.parametrize("event", EVENTS)
def test_a_cloud_event_is_one_to_the_package_of_that_name(event: LedgerEvent) -> None:
    message = AlertMessage(event, "https://b.example")
    found = from_http_event(HTTPMessage({"content-type": CLOUD_EVENT}, cloud_event(message)))
    assert found.get_specversion() == "1.0"
    assert found.get_type() == f"io.github.microbudget.{event.kind}"
    assert (found.get_id(), found.get_source()) == (message.id, "https://b.example")
    assert found.get_time() == datetime.fromtimestamp(NOON, UTC)
    assert found.get_subject() == (event.account or None)
    data: Any = found.get_data()
    assert data == {"account": event.account, **event.details, "text": message.text}


def test_a_signature_is_verified_by_the_package_of_that_name() -> None:
    body = cloud_event(AlertMessage(THRESHOLD, "microbudget"))
    headers = signed_headers("msg_1", int(time.time()), body, KEY)
    assert Webhook(SECRET).verify(body, headers) == json.loads(body)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + b" ", headers)
    assert set(signed_headers("msg_1", NOON, body, None)) == {"webhook-id", "webhook-timestamp"}


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            THRESHOLD,
            "org/team has reached 80 % of $5/day: $4.10 is spent. It resets at 00:00 UTC, in 12 h.",
        ),
        (
            FORECAST,
            "org/team will have spent $5/day at 15:40 UTC, in 3 h 40 min: $4.10 is spent. "
            "It resets at 00:00 UTC, in 12 h.",
        ),
        (
            THRESHOLD._replace(at=NOON + 86_400),
            "org/team has reached 80 % of $5/day: $4.10 is spent. "
            "It ended at 2026-03-02 00:00 UTC.",
        ),
        (
            THRESHOLD._replace(details={**THRESHOLD.details, "window": "run", "resets_at": None}),
            "org/team has reached 80 % of $5: $4.10 is spent.",
        ),
        (TEST, "This is a test of a channel for alerts of budgets."),
    ],
)
def test_a_text_is_a_sentence_or_two(event: LedgerEvent, text: str) -> None:
    assert AlertMessage(event, "https://b.example").text == text


def test_an_id_is_of_one_event_of_one_ledger_and_source() -> None:
    message = AlertMessage(THRESHOLD, "a")
    others = [
        AlertMessage(THRESHOLD, "b"),
        AlertMessage(FORECAST, "a"),
        AlertMessage(THRESHOLD._replace(number=9), "a"),
        AlertMessage(THRESHOLD._replace(at=NOON + 1), "a"),
    ]
    assert len({message.id, *(other.id for other in others)}) == 5
    assert message.id == AlertMessage(THRESHOLD, "a").id
