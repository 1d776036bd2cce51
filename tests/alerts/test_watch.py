"""A watch in the background of a program."""

import threading
from typing import Any

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.alerts.watch import AlertWatch, send_test, watching
from budget_cpython.ledger import Ledger
from tests.alerts.support import NOON, Receiver, calls, channel
from tests.ledger.patience import NO_HURRY
from tests.ports import kept_port
from tests.proxy.support import until

OFTEN = 0.01  # seconds


def test_what_is_crossed_while_it_watches_is_sent() -> None:
    ledger: Any = Ledger()
    calls(ledger, "org", 10, 5, "run")
    with Receiver() as receiver, watching(ledger, [channel(receiver.url)], OFTEN):
        until(lambda: len(receiver.ids) == 1)
        ledger.charge("org", {"calls": 5})
        until(lambda: len(receiver.ids) == 3)
    assert [body["data"]["percent"] for body in receiver.bodies[:1]] == [50]
    assert len(set(receiver.ids)) == 3


def test_a_channel_that_hangs_delays_no_other_and_no_look() -> None:
    ledger: Any = Ledger()
    held = threading.Event()

    def answer(number: int) -> int:
        held.wait(NO_HURRY)
        return 200

    for number in range(9):
        calls(ledger, f"org/a{number}", 10, 5, "run")
    with Receiver(answer) as hangs, Receiver() as answers:
        channels = [channel(hangs.url, "hangs"), channel(answers.url)]
        with watching(ledger, channels, OFTEN):
            until(lambda: len(answers.ids) == 9)
            calls(ledger, "late", 10, 5, "run")
            until(lambda: len(answers.ids) == 10)
            held.set()
    assert len(set(answers.ids)) == len(answers.ids)


def test_an_outage_of_the_ledger_is_logged_and_looked_past(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[Exception] = [LedgerUnavailableError("the engine is away")] * 3

    class Flaky(Ledger):
        def balances(self, path: str = "") -> Any:
            if errors:
                raise errors.pop()
            return super().balances(path)

    ledger: Any = Flaky()
    calls(ledger, "org", 10, 5, "run")
    with Receiver() as receiver, watching(ledger, [channel(receiver.url)], OFTEN):
        until(lambda: len(receiver.ids) == 1)
    text = "limits are not watched now: LedgerUnavailableError: the engine is away"
    assert caplog.text.count(text) == 1


def test_a_watch_that_is_closed_leaves_the_rest_to_others() -> None:
    ledger: Any = Ledger()
    for number in range(40):
        calls(ledger, f"org/a{number}", 10, 5, "run")
    with Receiver() as receiver:
        with watching(ledger, [channel(receiver.url)], NO_HURRY):
            until(lambda: bool(receiver.ids))
        other = AlertWatch(ledger, [channel(receiver.url)])
        assert other.look_once().failed == 0
        other.close()
        assert len(receiver.ids) == len(set(receiver.ids)) == 40


def test_a_test_is_sent_to_each_channel() -> None:
    with Receiver() as receiver, kept_port() as port:
        nowhere = channel(f"http://127.0.0.1:{port}", "nowhere")
        channels = [nowhere, channel(receiver.url)]
        results = [(one.name, why) for one, why in send_test(channels, NOON)]
        assert results == [("nowhere", "ConnectError"), ("ops", "")]
        assert "This is a test" in str(receiver.bodies)
        receiver.check_signatures()
