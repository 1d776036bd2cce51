"""How often the page reads a ledger, and what it tells browsers meanwhile."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

import httpx
import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.page.watch import LedgerWatch
from budget_cpython.serve.app import make_app
from budget_cpython.web.served_ledger import ServedLedger
from budget_cpython.web.server import running
from tests.page.support import NOON, Document, make_ledger, note_a_day, visit
from tests.serve.support import PATIENCE, Service
from tests_micro.support import FakeClock


class Counted:
    """A ledger that counts what it is asked for, and may fail; each answer takes a while."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.asked: list[str] = []
        self.timer = 0.0
        self.takes_s = 0.0
        self.is_out = False

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self.ledger, name)

        def call(*arguments: Any) -> Any:
            self.asked.append(name)
            self.timer += self.takes_s
            if self.is_out:
                raise LedgerUnavailableError("it is out")
            return operation(*arguments)

        return call


@pytest.fixture
def counted() -> Counted:
    ledger = make_ledger()
    note_a_day(ledger)
    return Counted(ledger)


@pytest.fixture
def watch(counted: Counted) -> LedgerWatch:
    served = ServedLedger(counted, PATIENCE)
    return LedgerWatch(served, clock=FakeClock(NOON), timer=lambda: counted.timer)


async def take(watch: LedgerWatch, readers: int, path: str = "") -> str:
    found = await asyncio.gather(*(watch.snapshot(path) for _ in range(readers)))
    assert len({one.digest for one in found}) == 1
    return found[0].digest


def test_all_readers_share_one_reading(watch: LedgerWatch, counted: Counted) -> None:
    async def read() -> None:
        await take(watch, 50)
        await take(watch, 50, "acme")

    asyncio.run(read())
    assert counted.asked.count("balances") == 1
    counted.timer += 1.9
    asyncio.run(take(watch, 3))
    assert counted.asked.count("balances") == 1
    counted.timer += 0.2
    asyncio.run(take(watch, 3))
    assert counted.asked.count("balances") == 2


def test_a_slow_ledger_is_asked_for_a_fifth_of_the_time_at_most(
    watch: LedgerWatch, counted: Counted
) -> None:
    counted.takes_s = 1.0  # four questions
    asyncio.run(take(watch, 2))
    counted.timer += 19
    asyncio.run(take(watch, 2))
    assert counted.asked.count("balances") == 1
    counted.timer += 2
    asyncio.run(take(watch, 2))
    assert counted.asked.count("balances") == 2


def test_a_ledger_that_failed_is_asked_again(watch: LedgerWatch, counted: Counted) -> None:
    counted.is_out = True
    with pytest.raises(LedgerUnavailableError):
        asyncio.run(take(watch, 3))
    assert counted.asked.count("balances") == 1
    counted.is_out = False
    asyncio.run(take(watch, 1))


def test_what_is_read_is_what_a_reader_may_see(watch: LedgerWatch, counted: Counted) -> None:
    before = asyncio.run(take(watch, 1, "acme")), asyncio.run(take(watch, 1, "other"))
    counted.ledger.charge("other", {"usd": "0.10"}, "more")
    counted.timer += 3
    after = asyncio.run(take(watch, 1, "acme")), asyncio.run(take(watch, 1, "other"))
    assert before[0] == after[0]  # nothing that others do shows
    assert before[1] != after[1]


def test_a_ledger_out_of_reach_is_said_and_its_reasons_are_not() -> None:
    ledger = Counted(make_ledger())
    ledger.is_out = True
    answer = visit(ledger).get()
    assert answer.status_code == 503
    text = Document(answer.text).root.text
    assert "The ledger does not answer now" in text
    assert "it is out" not in text


def test_a_browser_is_told_of_a_change_of_what_it_shows() -> None:
    ledger = make_ledger()
    with running(make_app(ledger), "127.0.0.1:0") as url, httpx.Client(timeout=PATIENCE) as client:
        page = Document(client.get(f"{url}/microbudget/").text).root
        seen = page.part("totals").attributes["data-seen"]
        updates = f"{url}/microbudget/updates?seen={seen}"
        with client.stream("GET", updates) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = stream.iter_lines()
            assert next(lines) == "retry: 3000"
            ledger.charge("acme", {"calls": 1}, "new")
            said = [line for line in (next(lines) for _ in range(3)) if line]
            assert said[0] == "event: change"
            assert said[1] != f"data: {seen}"


def test_streams_of_updates_do_not_hold_a_service_up_that_is_told_to_stop() -> None:
    with Service("--engine", "memory:", "--listen", "127.0.0.1:0", "--grace", "3600") as service:
        begun, lines = threading.Event(), []

        def follow() -> None:
            url = f"{service.url}/microbudget/updates"
            with (
                suppress(httpx.TransportError),
                httpx.stream("GET", url, timeout=PATIENCE) as found,
            ):
                for line in found.iter_lines():
                    lines.append(line)
                    begun.set()

        reader = threading.Thread(target=follow)
        reader.start()
        assert begun.wait(PATIENCE)
        assert service.end() == (0, "")
        reader.join(PATIENCE)
    assert lines[0] == "retry: 3000"
