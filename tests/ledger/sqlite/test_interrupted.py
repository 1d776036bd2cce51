"""Whatever a signal's handler raises, wherever: all or nothing is done, and nobody waits."""

import gc
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.sqlite import SqliteLedger

NOON = 20_000 * 86_400 + 43_200
ONE = {"tokens": 1}
STEP = {"tokens": 5}


class Handler:
    """Raises at the `nth` call or return of the ledger's code, as CPython runs handlers there."""

    def __init__(self, error: BaseException, nth: int) -> None:
        self._error = error
        self._left = nth

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if "/budget_c" in frame.f_code.co_filename:
            self._left -= 1
            if self._left < 0:
                sys.setprofile(None)
                raise self._error


def interrupted(act: Callable[[], object], error: BaseException) -> Iterator[bool]:
    """Act again and again, interrupted each time one step later, until it is not."""
    found, nth = True, 0
    while found:
        gc.disable()  # what is raised as garbage is collected goes nowhere
        sys.setprofile(Handler(error, nth))
        try:
            act()
            found = False
        except type(error) as caught:
            assert caught is error  # noqa: PT017 - where it is raised is the question
        finally:
            sys.setprofile(None)
            gc.enable()
        nth += 1
        yield found
    assert nth > 10


def counted(ledger: SqliteLedger) -> tuple[int, int]:
    (found,) = ledger.balance("org")
    return found.spent, found.held


def in_thread(action: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(action()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("reserve", KeyboardInterrupt()),
        ("commit", TimeoutError("of the application")),
        ("charge", ValueError("of the application")),
        ("set_limits", KeyboardInterrupt()),
        ("balance", KeyboardInterrupt()),
        ("close", KeyboardInterrupt()),
    ],
)
def test_an_operation_interrupted_anywhere_is_done_or_undone(
    tmp_path: Path, name: str, error: BaseException
) -> None:
    path = tmp_path / "ledger.db"
    with (
        SqliteLedger(path, clock=lambda: NOON, timeout=0.1) as ledger,
        SqliteLedger(path, clock=lambda: NOON, timeout=0.0) as other,
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as bare,
    ):
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        hold = ledger.reserve("org", STEP)
        acts = {
            "reserve": lambda: ledger.reserve("org", STEP),
            "commit": lambda: ledger.commit(ledger.reserve("org", STEP), STEP),
            "charge": lambda: ledger.charge("org", STEP),
            "set_limits": lambda: ledger.set_limits("org", [Limit("tokens", 10_000, "day")]),
            "balance": lambda: ledger.balance("org"),
            "close": ledger.close,
        }
        for _ in interrupted(acts[name], error):
            bare.execute("BEGIN IMMEDIATE")  # nothing is locked
            bare.execute("ROLLBACK")
            assert in_thread(lambda: counted(ledger)) == counted(other)
            assert all(number % 5 == 0 for number in counted(ledger))
        assert ledger.commit(hold).state == "committed"


def test_closing_in_the_midst_of_an_operation_is_refused(tmp_path: Path) -> None:
    refused: list[str] = []

    def clock() -> float:
        if made:
            with pytest.raises(LedgerUnavailableError, match="was locked") as found:
                made[0].close()
            refused.append(str(found.value))
        return NOON

    made: list[SqliteLedger] = []
    with SqliteLedger(tmp_path / "ledger.db", clock=clock, timeout=3600) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        made.append(ledger)
        ledger.charge("org", ONE)
        made.clear()
        assert refused
        assert counted(ledger) == (1, 0)


def test_closing_waits_no_longer_than_the_timeout_for_another_thread(tmp_path: Path) -> None:
    begun, closed = threading.Event(), threading.Event()
    waits = False

    def clock() -> float:
        if waits:
            begun.set()
            closed.wait()
        return NOON

    ledger = SqliteLedger(tmp_path / "ledger.db", clock=clock, timeout=0.05)
    ledger.set_limits("org", [Limit("tokens", None, "day")])
    waits = True
    thread = threading.Thread(target=lambda: ledger.charge("org", ONE))
    thread.start()
    begun.wait()
    try:
        with pytest.raises(LedgerUnavailableError, match=r"was locked for 0\.05 s"):
            ledger.close()
    finally:
        waits = False
        closed.set()
        thread.join()
    assert counted(ledger) == (1, 0)
    ledger.close()


def test_an_interrupt_in_the_midst_of_undoing_leaves_nothing_locked(tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: NOON) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        undo, told = ledger.undo, []

        def interrupted(error: BaseException) -> None:
            told.append(error)
            if len(told) == 1:
                raise KeyboardInterrupt
            undo(error)

        broken = mock.patch.object(ledger._holds, "add", side_effect=sqlite3.OperationalError)
        undone = mock.patch.object(ledger, "undo", interrupted)
        with broken, undone, pytest.raises(KeyboardInterrupt):
            ledger.charge("org", ONE)
        assert not ledger._file.is_mine()
        ledger.charge("org", ONE)
        with SqliteLedger(tmp_path / "ledger.db", clock=lambda: NOON) as other:
            assert counted(other) == (1, 0)


def test_what_another_thread_undoes_right_after_a_commit_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        counted = mock.patch.object(ledger._holds, "settled", side_effect=KeyboardInterrupt)
        with counted, pytest.raises(KeyboardInterrupt):
            ledger.commit(hold, {"tokens": 7})

    def release() -> None:
        monkeypatch.undo()
        ledger._file.release()
        in_thread(fail)

    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: NOON) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        hold = ledger.reserve("org", {"tokens": 3})
        ledger.charge("org", ONE)
        monkeypatch.setattr(ledger._file, "release", release)
        ledger.charge("org", ONE)
        ledger.charge("org", ONE)
        assert counted(ledger) == (3, 3)
