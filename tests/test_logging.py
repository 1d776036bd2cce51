"""What is logged, at which level, how often, and that no key or prompt is in it."""

import asyncio
import logging
import os
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_core.errors import StoreError
from budget_core.ledger.errors import LedgerError, UnknownAccountError
from budget_core.ledger.outbox import Outbox, finish
from budget_cpython import (
    Budget,
    BudgetWrapper,
    ChatClient,
    DailyBudgetConfig,
    DailyBudgetTracker,
    Envelope,
    FileBudgetStore,
    HttpLedger,
    Limit,
    Operative,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from budget_cpython.ledger.offline_cap import OfflineCapLedger
from scripted_model import ScriptedEndpoint
from tests.paths import ROOT
from tests_micro.ledger.faults import World
from tests_micro.script import Script
from tests_micro.support import FakeClock, raises

KEY = "sk-do-not-log-me"
PROMPT = "What is the capital of Assyria?"
ASKED = [{"role": "user", "content": PROMPT}]
NOON = 20_000 * 86_400 + 43_200


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    caplog.set_level(logging.DEBUG, "microbudget")
    yield caplog
    for secret in (KEY, PROMPT, "Nineveh"):
        assert secret not in caplog.text


def lines(logged: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return the level and text of each line of ours since the last look."""
    found = [
        (line.levelname, line.getMessage()) for line in logged.records if line.name == "microbudget"
    ]
    logged.clear()
    return found


def ask(provider: Any, times: int = 1, **options: Any) -> None:
    for _ in range(times):
        asyncio.run(provider.chat(ASKED, **options))


def day(clock: FakeClock, store: Any = None, **config: Any) -> DailyBudgetTracker:
    config = {"daily_budget": 100, "enforcement": "cutoff", **config}
    return DailyBudgetTracker(DailyBudgetConfig(**config), clock, store)


@pytest.mark.parametrize("mode", ["cutoff", "fallback", "warn", "observe"])
def test_a_limit_is_logged_once_for_each_window(
    logged: pytest.LogCaptureFixture, mode: str
) -> None:
    clock = FakeClock(NOON)
    wrapper = BudgetWrapper(
        Script(100),
        day(clock, enforcement=mode, fallback_model="small"),
        on_limit_reached=lambda **_: None,
    )
    for _ in range(2):
        ask(wrapper, 4)
        ((level, text),) = lines(logged)
        assert level == "INFO"
        assert "daily budget is spent (" in text
        clock.advance(86_400)


def test_each_turn_that_is_cut_off_is_logged(logged: pytest.LogCaptureFixture) -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=1))
    wrapper = BudgetWrapper(Script(1), tracker)
    for _ in range(3):
        ask(wrapper, 3)
        assert len(lines(logged)) == 1
        tracker.reset()


def test_a_damaged_state_is_an_error_that_names_the_file(
    logged: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "day.json"
    path.write_bytes(b"")
    day(FakeClock(NOON), FileBudgetStore(path))
    ((level, text),) = lines(logged)
    assert level == "ERROR"
    assert str(path) in text
    assert "counts as spent" in text


def test_a_file_that_is_not_a_state_is_a_warning_that_names_it(
    logged: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = tmp_path / "my_config.json"
    path.write_text("{}")
    tracker = day(FakeClock(NOON), FileBudgetStore(path))
    for _ in range(3):
        tracker.maybe_auto_reset()
    ((level, text),) = lines(logged)
    assert level == "WARNING"
    assert f"{str(path)!r} is not a budget state" in text


class Store:
    """A store that fails while it is told to."""

    error: Exception | None = None

    def load(self) -> None:
        if self.error:
            raise self.error

    def save(self, state: Any) -> None:
        self.load()

    def clear(self) -> None:
        self.load()


def test_an_outage_of_a_store_is_logged_once_and_so_is_its_end(
    logged: pytest.LogCaptureFixture,
) -> None:
    store = Store()
    tracker = day(FakeClock(NOON), store)
    wrapper = BudgetWrapper(Script(1), tracker)
    for _ in range(2):
        store.error = StoreError("the disk is full")
        ask(wrapper, 3)
        ((level, text),) = lines(logged)
        assert level == "WARNING"
        assert "the disk is full" in text
        store.error = None
        ask(wrapper, 3)
        ((level, text),) = lines(logged)
        assert level == "INFO"
        assert "again" in text


def test_an_outage_of_a_days_ledger_is_logged_once_and_so_is_its_end(
    logged: pytest.LogCaptureFixture,
) -> None:
    world = World()
    tracker = DailyBudgetTracker(ledger=world.faulty, account="org/day")
    for down, level in (("before", "WARNING"), ("", "INFO")):
        world.faulty.down = down
        for _ in range(3):
            tracker.maybe_auto_reset()
            tracker.record({"total_tokens": 1})
        assert [found for found, _ in lines(logged)] == [level]


def test_a_refusal_by_a_ledger_is_logged_once_for_its_window(
    logged: pytest.LogCaptureFixture,
) -> None:
    world = World(calls=1, window="day")
    wrapper = BudgetWrapper(Script(1), ledger=world.ledger, account="org/agent")
    for _ in range(2):
        ask(wrapper, 4)
        ((level, text),) = lines(logged)
        assert level == "INFO"
        assert "org/agent" in text
        assert "calls per day" in text
        world.advance(86_400)


def test_a_models_name_cannot_begin_a_line_of_the_log(logged: pytest.LogCaptureFixture) -> None:
    world = World()
    world.ledger.set_limits("org", [Limit("usd", "1.00")])
    wrapper = BudgetWrapper(Script(1), ledger=world.ledger, account="org/agent")
    ask(wrapper, model="gpt\x1b[2J\nERROR: all is spent")
    ((_, text),) = lines(logged)
    assert "gpt\\x1b[2J\\nERROR: all is spent" in text


def test_an_outage_of_a_ledger_is_logged_once_and_so_is_its_end(
    logged: pytest.LogCaptureFixture,
) -> None:
    world = World()
    wrapper = BudgetWrapper(Script(1), ledger=world.faulty, account="org/agent")
    for _ in range(2):
        for down, level in (("before", "WARNING"), ("", "INFO")):
            world.faulty.down = down
            ask(wrapper, 3)
            assert [found for found, _ in lines(logged)] == [level]


def test_an_outage_behind_a_cap_is_logged_once_and_so_is_its_end(
    logged: pytest.LogCaptureFixture,
) -> None:
    world = World()
    capped = OfflineCapLedger(world.faulty, {"calls": 9}, world.clock, world.monotonic)
    for down, level in (("before", "WARNING"), ("", "INFO")):
        world.faulty.down = down
        for _ in range(3):
            capped.commit(capped.reserve("org/agent", {"calls": 1}))
            world.advance(60)
            if down:
                with pytest.raises(LedgerError):
                    capped.close()  # it asks once more
        assert [found for found, _ in lines(logged)] == [level]


def test_what_a_ledger_refuses_for_good_is_an_error(logged: pytest.LogCaptureFixture) -> None:
    async def refuse(operation: str, *arguments: Any) -> None:
        raise UnknownAccountError("org/agent")

    outbox = Outbox()
    outbox.charge("org/agent", {"tokens": 1})
    assert isinstance(finish(outbox.deliver_all(refuse)), LedgerError)
    ((level, text),) = lines(logged)
    assert (level, "for good" in text) == ("ERROR", True)


def test_a_hook_that_raises_is_an_error_and_logged_once(logged: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any, **figures: Any) -> None:
        raise LookupError("broken hook")

    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=1))
    wrapper = BudgetWrapper(Script(1), tracker, on_limit_reached=broken)
    for _ in range(3):
        ask(wrapper, 2)
        tracker.reset()
    assert [text for level, text in lines(logged) if level == "ERROR"] == [
        "a turn hook raised LookupError"
    ]
    operative = Operative(Script(1), on_event=broken)
    operative.run_sync(PROMPT)
    assert lines(logged) == [("ERROR", "on_event raised LookupError")]
    envelope = Envelope.open(Budget())
    envelope.add_watcher(broken)
    envelope.changed()
    assert lines(logged) == [("ERROR", "a watcher raised LookupError: broken hook")]


def test_a_hooks_error_is_logged_without_what_was_said(logged: pytest.LogCaptureFixture) -> None:
    def quote(kind: str, **fields: Any) -> None:
        raise ValueError(f"{PROMPT} {fields}")

    class MuteError(Exception):
        def __repr__(self) -> str:
            raise RuntimeError("no text")

        __str__ = __repr__

    def mute(**_: Any) -> None:
        raise MuteError

    Operative(Script(1), on_event=quote).run_sync(PROMPT)
    assert lines(logged) == [("ERROR", "on_event raised ValueError")]
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=1))
    wrapper = BudgetWrapper(Script(1), tracker, on_limit_reached=mute)
    ask(wrapper, 2)
    assert ("ERROR", "a turn hook raised MuteError") in lines(logged)
    assert isinstance(wrapper.hook_error, MuteError)


def test_a_run_that_is_stopped_is_logged_without_its_words(
    logged: pytest.LogCaptureFixture,
) -> None:
    operative = Operative(Script(ValueError("Nineveh")), budget=Budget(max_turns=3))
    assert not operative.run_sync(PROMPT).completed
    ((level, text),) = lines(logged)
    assert level == "INFO"
    assert "run was stopped: <OperativeResult: " in text


def test_a_retry_is_logged_without_what_was_sent(logged: pytest.LogCaptureFixture) -> None:
    with ScriptedEndpoint() as endpoint:
        client = ChatClient(endpoint.base_url, "busy", KEY)
        asyncio.run(client.chat(ASKED))
    ((level, text),) = lines(logged)
    assert level == "INFO"
    assert text.startswith("attempt 1 failed (429), the next follows in ")


class LosesAnAnswer(socketserver.StreamRequestHandler):
    """Ends the first connection without an answer, and answers the second."""

    seen = 0

    def handle(self) -> None:
        while self.rfile.readline() != b"\r\n":
            pass
        LosesAnAnswer.seen += 1
        if LosesAnAnswer.seen > 1:
            head = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\nConnection: close\r\n\r\n"
            self.wfile.write(head + b'{"expired":0}')


def test_a_request_that_is_sent_again_is_logged(logged: pytest.LogCaptureFixture) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), LosesAnAnswer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            ledger = HttpLedger(f"http://127.0.0.1:{server.server_address[1]}", KEY)
            assert ledger.expire() == 0
            ledger.close()
        finally:
            server.shutdown()
            thread.join()
    assert [level for level, _ in lines(logged)] == ["DEBUG"]


def test_a_client_that_cannot_connect_logs_no_key(logged: pytest.LogCaptureFixture) -> None:
    client = ChatClient("http://127.0.0.1:9", "m", KEY, retries=1, sleep=FakeClock().sleep)
    operative = Operative(client)
    operative.run_sync(PROMPT)
    assert len(lines(logged)) == 2


def test_a_program_that_logs_nothing_else_sees_warnings_on_standard_error() -> None:
    code = (
        "from budget_core.log import log\n"
        "for level in ('debug', 'info', 'warning', 'error'): log(level, f'100% {level}')"
    )
    for python, expected in (
        ("python3", "100% warning\n100% error\n"),
        (os.environ.get("MICROPYTHON"), "microbudget: 100% error\n"),
    ):
        if python is None:
            pytest.skip("set MICROPYTHON to see what that prints")
        done = subprocess.run(
            [python, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
        )
        assert done.stderr == expected


def test_limits_that_are_not_reached_log_nothing(
    logged: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    clock = FakeClock(NOON)
    world = World()
    world.ledger.set_limits("org/agent", [Limit("calls", 100)])
    with FileBudgetStore(tmp_path / "day.json") as store:
        wrapper = BudgetWrapper(Script(1), day(clock, store))
        wrapper = BudgetWrapper(wrapper, ledger=world.ledger, account="org/agent")
        operative = Operative(wrapper, budget=Budget(max_turns=3))
        assert operative.run_sync(PROMPT).completed
    assert lines(logged) == []
    raises(StoreError, store.load)
