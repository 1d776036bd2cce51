"""An engine that hangs makes the ledger unavailable, and takes no more than its threads."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.sqlite import SqliteLedger
from budget_cpython.web.served_ledger import THREADS, ServedLedger
from tests.serve.support import PATIENCE, put_ahead


class Hung:
    """A ledger that answers once it may."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = 0
        self.changed = threading.Condition()

    def reserve(self, *arguments: object) -> str:
        with self.changed:
            self.asked += 1
            self.changed.notify_all()
        self.may_answer.wait(PATIENCE)
        return "answer"

    async def was_asked(self, times: int) -> None:
        """Wait until it was asked that often."""
        assert await asyncio.to_thread(self._await, times)

    def _await(self, times: int) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.asked >= times, PATIENCE)


class HungAsync:
    """A ledger that never answers."""

    async def reserve(self, *arguments: object) -> None:
        await asyncio.Event().wait()


async def failure_of(ledger: ServedLedger) -> LedgerUnavailableError:
    with pytest.raises(LedgerUnavailableError) as caught:
        await ledger.call("reserve")
    return caught.value


class InGroups(Hung):
    """A ledger that is given operations in groups, and does them once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: list[list[tuple[Any, ...]]] = []

    def do_together(self, operations: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        self.groups.append([arguments for _, arguments in operations])
        self.reserve()
        return [arguments[0] for _, arguments in operations]


def test_an_engine_that_hangs_is_unavailable_and_its_call_is_in_doubt() -> None:
    hung = Hung()

    async def hang() -> LedgerUnavailableError:
        failing = asyncio.create_task(failure_of(ServedLedger(hung, PATIENCE)))
        await hung.was_asked(1)
        put_ahead(PATIENCE)
        return await failing

    for waiting, seconds in (
        (hang(), PATIENCE),
        (failure_of(ServedLedger(HungAsync(), 0.01)), 0.01),
    ):
        error = asyncio.run(waiting)
        assert error.applied is None
        assert f" {seconds:g} s" in str(error)
    hung.may_answer.set()


def test_a_call_that_waits_too_long_for_a_thread_is_not_made() -> None:
    hung = Hung()
    engine = ServedLedger(hung, PATIENCE)

    async def rush() -> list[LedgerUnavailableError]:
        failing = asyncio.gather(*(failure_of(engine) for _ in range(3 * THREADS)))
        await hung.was_asked(THREADS)
        put_ahead(PATIENCE)
        return await failing

    async def later() -> str:
        hung.may_answer.set()
        for _ in range(THREADS):
            assert await engine.call("reserve") == "answer"
        return "well"

    applied = [error.applied for error in asyncio.run(rush())]
    assert (applied.count(None), applied.count(False)) == (THREADS, 2 * THREADS)
    assert hung.asked == THREADS
    assert asyncio.run(later()) == "well"
    assert hung.asked == 2 * THREADS


def test_a_cancelled_call_leaves_the_ledger_usable() -> None:
    hung = Hung()
    engine = ServedLedger(hung, PATIENCE)

    async def leave() -> None:
        task = asyncio.create_task(engine.call("reserve"))
        await hung.was_asked(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    hung.may_answer.set()
    assert asyncio.run(engine.call("reserve")) == "answer"


def test_expired_holds_are_looked_for_again_after_any_error() -> None:
    class Counting(Hung):
        def expire(self) -> int:
            self.asked += 1
            if self.asked == 2:
                raise LedgerUnavailableError("it is down")
            if self.asked == 3:
                raise AttributeError("unexpected")
            if self.asked == 4:
                looked.set()
            return 0

    looked = threading.Event()
    ledger = Counting()
    engine = ServedLedger(ledger, PATIENCE)

    async def look() -> None:
        task = asyncio.create_task(engine.expire_forever(0.001))
        assert await asyncio.to_thread(looked.wait, PATIENCE)
        task.cancel()

    asyncio.run(look())
    assert ledger.asked >= 4


def test_an_engine_with_an_unexpected_error_is_not_ready() -> None:
    class Wrong(Hung):
        def limits(self, path: str) -> None:
            raise AttributeError(path)

    assert asyncio.run(ServedLedger(Wrong(), PATIENCE).is_ready()) is False


def test_all_who_ask_at_once_whether_it_is_ready_ask_the_engine_once() -> None:
    hung = Hung()
    hung.limits = hung.reserve  # type: ignore[attr-defined]

    async def ask() -> list[bool]:
        ledger = ServedLedger(hung, PATIENCE)
        asking = [asyncio.create_task(ledger.is_ready()) for _ in range(2 * THREADS)]
        await hung.was_asked(1)
        asking.pop(0).cancel()
        hung.may_answer.set()
        answers = await asyncio.gather(*asking)
        return [*answers, await ledger.is_ready()]

    assert asyncio.run(ask()) == [True] * 2 * THREADS
    assert hung.asked == 2


def test_a_ledger_that_never_waits_is_called_without_a_thread() -> None:
    class Watched(Ledger):
        def charge(self, *arguments: Any) -> Any:
            callers.append(threading.current_thread())
            return super().charge(*arguments)

    async def charge() -> None:
        ledger = Watched()
        ledger.set_limits("org", [Limit("calls", 3)])
        await ServedLedger(ledger, PATIENCE).call("charge", "org", {"calls": 1}, "key")

    callers: list[threading.Thread] = []
    asyncio.run(charge())
    assert callers == [threading.current_thread()]


def test_what_comes_while_the_engine_is_busy_is_done_together_in_its_order() -> None:
    grouped = InGroups()

    async def ask() -> list[Any]:
        engine = ServedLedger(grouped, PATIENCE)
        first = asyncio.create_task(engine.call("charge", 0))
        await grouped.was_asked(1)
        rest = [asyncio.create_task(engine.call("charge", number)) for number in range(1, 5)]
        await asyncio.sleep(0)
        rest[1].cancel()
        grouped.may_answer.set()
        return await asyncio.gather(first, *rest, return_exceptions=True)

    found = asyncio.run(ask())
    assert isinstance(found.pop(2), asyncio.CancelledError)
    assert found == [0, 1, 3, 4]
    assert grouped.groups == [[(0,)], [(1,), (3,), (4,)]]


def test_a_call_that_waits_too_long_for_its_turn_is_not_made() -> None:
    grouped = InGroups()
    engine = ServedLedger(grouped, PATIENCE)

    async def hang() -> list[LedgerUnavailableError]:
        first = asyncio.create_task(failure_of(engine))
        await grouped.was_asked(1)
        later = asyncio.create_task(failure_of(engine))
        await asyncio.sleep(0)
        put_ahead(PATIENCE)
        failures = [await first, await later]
        grouped.may_answer.set()
        assert await engine.call("charge", "last") == "last"
        return failures

    assert [error.applied for error in asyncio.run(hang())] == [None, False]
    assert grouped.groups[1:] == [[("last",)]]


def test_each_of_a_files_operations_has_its_own_answer_in_a_shared_commit(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "ledger.db")
    ledger.set_limits("org", [Limit("calls", 2)])

    async def ask() -> list[Any]:
        engine = ServedLedger(ledger, PATIENCE)
        asking = [
            engine.call("reserve", path, {"calls": calls}, key, 60, None)
            for path, calls, key in (
                ("org", 1, "a"),
                ("none", 1, "b"),
                ("org", -1, "c"),
                ("org", 2, "d"),
                ("org", 1, "e"),
            )
        ]
        return await asyncio.gather(*asking, engine.call("limits", "org"), return_exceptions=True)

    kinds = [type(one) for one in asyncio.run(ask())]
    refused = [UnknownAccountError, ValueError, BudgetExceededError]
    first, *errors, last, limits = kinds
    assert (errors, first is last, limits) == (refused, True, list)
    (balance,) = ledger.balance("org")
    assert balance.held == 2
    (event,) = ledger.events("org", ["refused"])
    assert event.details["asked"] == 2
    ledger.close()
