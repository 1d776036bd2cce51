"""Delivery: one attempt at a time, retries, and what becomes of what cannot be delivered."""

import logging
from typing import Any

import pytest

from budget_core.wall_clock import DAY
from budget_cpython.alerts.channels import AlertChannel
from budget_cpython.alerts.delivery import BACKOFF_S, LEASE_S
from budget_cpython.alerts.messages import AlertMessage
from budget_cpython.alerts.sending import AlertNotSentError
from budget_cpython.alerts.watch import AlertRound
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ops.alert_log import AlertStatus, undelivered
from tests.alerts.support import NOON, Receiver, calls, channel, watch_of
from tests.ledger.engines import Engine, Redis, of
from tests.paths import ROOT
from tests.ports import kept_port
from tests_micro.support import FakeClock

CROSSED: dict[str, Any] = {
    "axis": "calls", "window": "day", "cap": 10, "spent": 5, "resets_at": NOON + 9, "percent": 50
}  # fmt: skip


class Crash(BaseException):
    """The death of a process while it sends."""


class Outbox:
    """Channels that take, refuse or crash, as `answers` say, and then take."""

    def __init__(self, *answers: BaseException | None) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, str]] = []

    def send(self, channel: AlertChannel, message: AlertMessage) -> None:
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        self.sent.append((channel.name, message.id))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def ledger(clock: FakeClock) -> Any:
    found = Ledger(clock)
    calls(found, "org", 10, 5)
    return found


def waiting(ledger: Any) -> list[AlertStatus]:
    return undelivered(ledger.events(kinds=["alert"]))


def test_every_channel_gets_each_alert_once(ledger: Any, clock: FakeClock) -> None:
    with Receiver() as first, Receiver() as second:
        channels = channel(first.url), channel(second.url, "desk")
        watches = [watch_of(ledger, clock, *channels) for _ in range(2)]
        assert watches[0].look_once() == AlertRound(1, 2, 0)
        assert watches[1].look_once() == AlertRound(0, 0, 0)
        assert watches[0].look_once() == AlertRound(0, 0, 0)
        assert first.ids == second.ids
        assert first.bodies[0]["data"]["percent"] == 50
        assert "50 %" in second.bodies[0]["data"]["text"]
        first.check_signatures()
        for watch in watches:
            watch.close()
    assert waiting(ledger) == []


def test_what_fails_is_tried_again_after_a_while_by_anyone(ledger: Any, clock: FakeClock) -> None:
    refused = AlertNotSentError("HTTP 503")
    box = Outbox(refused, refused)
    at = (0, BACKOFF_S[0] - 1, 1, BACKOFF_S[1] - 1, 1, 10)
    rounds = []
    for seconds in at:
        clock.advance(seconds)
        watch = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
        rounds.append(watch.look_once())
        watch.close()
    assert rounds == [(1, 0, 1), (0, 0, 0), (0, 0, 1), (0, 0, 0), (0, 1, 0), (0, 0, 0)]
    assert len(box.sent) == 1
    states = [one.details["state"] for one in ledger.events(kinds=["alert"])]
    assert states == ["sending", "failed", "sending", "failed", "sending", "delivered"]


def test_after_its_last_attempt_an_alert_is_dead(ledger: Any, clock: FakeClock) -> None:
    box = Outbox(*[AlertNotSentError("ConnectError")] * 99)
    watch = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
    for seconds in (0, *BACKOFF_S):
        clock.advance(seconds)
        assert watch.look_once().failed == 1
        (status,) = waiting(ledger)
        assert status.reason == "ConnectError"
    assert (status.state, status.attempt, status.is_pending) == ("dead", 7, False)
    assert (status.account, status.to, status.of[:13]) == ("org", "ops", "threshold/org")
    clock.advance(DAY)
    assert watch.look_once() == (0, 0, 0)
    watch.close()


def test_the_lease_of_a_process_that_died_ends(ledger: Any, clock: FakeClock) -> None:
    box = Outbox(Crash())
    dying = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
    with pytest.raises(Crash):
        dying.look_once()
    other = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
    clock.advance(LEASE_S - 1)
    assert other.look_once() == (0, 0, 0)
    (status,) = waiting(ledger)
    assert (status.state, status.is_pending) == ("sending", True)
    clock.advance(1)
    assert other.look_once() == (0, 1, 0)
    dying.close()
    other.close()


def test_an_alert_whose_processes_all_died_is_dead(ledger: Any, clock: FakeClock) -> None:
    box = Outbox(*[Crash()] * 7)
    for _ in range(7):
        dying = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
        with pytest.raises(Crash):
            dying.look_once()
        dying.close()
        clock.advance(LEASE_S)
    watch = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
    assert watch.look_once() == (0, 0, 1)
    (status,) = waiting(ledger)
    assert (status.state, status.reason) == ("dead", "no outcome is known")
    watch.close()


def test_a_late_failure_of_an_earlier_attempt_changes_nothing(
    ledger: Any, clock: FakeClock
) -> None:
    watch = watch_of(ledger, clock, channel("http://localhost"), send=Outbox(Crash()).send)
    with pytest.raises(Crash):
        watch.look_once()
    watch.close()
    (sending,) = ledger.events(kinds=["alert"])
    clock.advance(LEASE_S)
    slow = watch_of(ledger, clock, channel("http://localhost"), send=Outbox().send)
    assert slow.look_once() == (0, 1, 0)
    slow.close()
    failed = {**sending.details, "state": "failed", "until": NOON}
    ledger.note([sending._replace(details=failed, name=sending.name + "/failed")])
    assert waiting(ledger) == []


def test_what_others_note_in_another_form_is_left_out(ledger: Any, clock: FakeClock) -> None:
    ledger.note(
        [
            LedgerEvent("threshold", "org", {"percent": 50}, "threshold/x"),
            LedgerEvent("threshold", "org", {**CROSSED, "cap": "10"}, "threshold/y"),
            LedgerEvent("threshold", "org", CROSSED),
            LedgerEvent("alert", "org", {"of": "threshold/x"}, "alert/1/ops/1"),
            LedgerEvent("alert", "org", {"of": 5, "number": "x"}, ""),
        ]
    )
    box = Outbox()
    watch = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
    assert watch.look_once() == (1, 1, 0)
    watch.close()
    assert waiting(ledger) == []
    ledger.note([LedgerEvent("threshold", "org", CROSSED, "threshold/z")])
    watch = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
    assert watch.look_once() == (0, 1, 0)
    watch.close()


def test_a_receiver_asks_for_rest(ledger: Any, clock: FakeClock) -> None:
    with Receiver(lambda number: 429 if number == 1 else 204, retry_after="50") as receiver:
        watch = watch_of(ledger, clock, channel(receiver.url))
        rounds = [watch.look_once()]
        for seconds in (49, 1):
            clock.advance(seconds)
            rounds.append(watch.look_once())
        assert rounds == [(1, 0, 1), (0, 0, 0), (0, 1, 0)]
        assert receiver.ids == [receiver.ids[0]] * 2
        watch.close()


def test_redirects_are_not_followed(ledger: Any, clock: FakeClock) -> None:
    with Receiver() as other, Receiver(lambda number: 307, location=other.url) as receiver:
        watch = watch_of(ledger, clock, channel(receiver.url))
        assert watch.look_once() == (1, 0, 1)
        assert (len(receiver.ids), other.ids) == (1, [])
        watch.close()
    assert [status.reason for status in waiting(ledger)] == ["HTTP 307"]


def test_no_secret_is_logged_or_noted(
    ledger: Any, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Receiver() as receiver, kept_port() as port:
        there = channel(f"{receiver.url}/T0/hidden-word")
        nowhere = channel(f"http://127.0.0.1:{port}/T0/hidden-word", "nowhere")
        watch = watch_of(ledger, clock, there, nowhere)
        assert watch.look_once() == (1, 1, 1)
        watch.close()
        assert receiver.requests[0].path == "/T0/hidden-word"
    assert "attempt 1 of an alert to nowhere failed: ConnectError" in caplog.text
    assert "hidden-word" not in caplog.text
    assert "hidden-word" not in repr(ledger.events())


def test_a_new_channel_gets_the_crossings_of_a_day(ledger: Any, clock: FakeClock) -> None:
    box = Outbox()
    first = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
    assert first.look_once() == (1, 1, 0)
    clock.advance(DAY - 1)
    later = [channel("http://localhost", name) for name in ("ops", "later", "latest")]
    second = watch_of(ledger, clock, *later[:2], send=box.send)
    assert second.look_once().delivered == 1
    clock.advance(2)
    third = watch_of(ledger, clock, *later, send=box.send)
    assert third.look_once().delivered == 0
    assert [name for name, _ in box.sent] == ["ops", "later"]
    for watch in (first, second, third):
        watch.close()


@pytest.mark.filterwarnings("ignore")  # of apprise's imports
def test_apprise_sends_what_it_knows(ledger: Any, clock: FakeClock) -> None:
    with Receiver(lambda number: 200 if number == 2 else 500) as receiver:
        to = receiver.url.replace("http", "json", 1)
        watch = watch_of(ledger, clock, channel(to, format="apprise", key=None))
        assert watch.look_once() == (1, 0, 1)
        clock.advance(BACKOFF_S[0])
        assert watch.look_once() == (0, 1, 0)
        assert receiver.bodies[1]["title"] == "Budget of org"
        assert receiver.bodies[1]["message"].startswith("org has reached 50 % of 10 calls/day")
        watch.close()
    (status, *_) = ledger.events(kinds=["alert"])[1:2]
    assert status.details["reason"] == "apprise could not send it"


@pytest.mark.parametrize(("trusted", "delivered"), [("localhost.pem", 0), ("root.pem", 1)])
def test_certificates_are_verified(
    ledger: Any,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    trusted: str,
    delivered: int,
) -> None:
    data = ROOT / "tests/data"
    monkeypatch.setenv("SSL_CERT_FILE", str(data / trusted))
    with Receiver() as receiver:
        receiver.serve_https(data / "signed.pem", data / "signed.key")
        url = receiver.url.replace("http://127.0.0.1", "https://localhost")
        watch = watch_of(ledger, clock, channel(url))
        assert watch.look_once() == (1, delivered, 1 - delivered)
        watch.close()
        assert len(receiver.ids) == delivered


@of(Redis)
def test_an_engine_that_lost_its_data_is_watched_on(engine: Engine, clock: FakeClock) -> None:
    ledger = engine.make(clock)
    calls(ledger, "org", 10, 10)
    box = Outbox()
    watch = watch_of(ledger, clock, channel("http://localhost"), send=box.send)
    assert watch.look_once() == (3, 3, 0)
    engine.empty()
    calls(ledger, "lab", 10, 5)
    assert watch.look_once() == (1, 1, 0)
    watch.close()
