"""How much code there is, and how much of it one call passes through, on CPython.

A hop is a call from a function in one file of the packages to a function in another. Functions are
counted each time one is entered.
"""

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from unittest import mock

from benchmarks.figures import Figure
from benchmarks.mpy import ROOT
from budget_cpython import (
    BudgetWrapper,
    ChatResponse,
    DailyBudgetConfig,
    DailyBudgetTracker,
    FileBudgetStore,
    Limit,
    SqliteLedger,
)

MOST_LINES = {"budget_core": 10_000, "budget_cpython": 12_800}
MOST_HOPS = 16
MOST_ENTERED = 120
MOST_WRITES = 2
_OURS = tuple(str(ROOT / package) for package in MOST_LINES)
_SOURCES = (".py", ".pyi", ".lua", ".sql")
_MESSAGES = [{"role": "user", "content": "hello"}]
_PLAIN = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
_CACHED = {**_PLAIN, "prompt_tokens_details": {"cached_tokens": 20}}


class Model:
    """A model that answers at once, with one usage report."""

    def __init__(self, usage: dict[str, Any]) -> None:
        self.response = ChatResponse("hi", usage=usage)

    def get_default_model(self) -> str:
        """Return the one model there is."""
        return "m"

    async def chat(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        model: str | None = None,
        max_tokens: int | None = None,
    ) -> ChatResponse:
        """Return the one answer there is."""
        return self.response


def measure(quick: bool = False) -> list[Figure]:
    """Return lines, hops, functions and transactions; `quick` changes nothing."""
    lines = [Figure(f"lines: {name}", _lines(name), "", most) for name, most in MOST_LINES.items()]
    with TemporaryDirectory() as folder:
        hops = asyncio.run(_day(Path(folder)))
        entered, writes = asyncio.run(_ledger(Path(folder)))
    return [
        *lines,
        Figure("hops between files: a usage report to the day's file", hops, "", MOST_HOPS),
        Figure("functions entered: a wrapped call on SQLite", entered, "", MOST_ENTERED),
        Figure("write transactions: a wrapped call on SQLite", writes, "", MOST_WRITES),
    ]


def _lines(package: str) -> int:
    files = (ROOT / package).rglob("*.*")
    return sum(path.read_bytes().count(b"\n") for path in files if path.suffix in _SOURCES)


async def _day(folder: Path) -> int:
    """Return the hops of recording a report with cached tokens in a day's file."""
    store = FileBudgetStore(folder / "budget.json")
    tracker = DailyBudgetTracker(DailyBudgetConfig(fallback_model="f"), store=store)
    wrapper = BudgetWrapper(Model(_CACHED), tracker)
    await wrapper.chat(_MESSAGES)

    async def record() -> None:
        tracker.record(_CACHED)

    return sum(caller != file for caller, file in await _calls(record))


async def _ledger(folder: Path) -> tuple[int, int]:
    """Return the functions entered and the write transactions of one wrapped call."""
    begun: list[str] = []
    connect = sqlite3.connect

    def watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*arguments, **options)
        db.set_trace_callback(begun.append)
        return db

    with mock.patch("sqlite3.connect", watched), SqliteLedger(folder / "ledger.db") as ledger:
        ledger.set_limits("org", [Limit("tokens", 10**12, "day")])
        wrapper = BudgetWrapper(Model(_PLAIN), ledger=ledger, account="org/agent")
        await wrapper.chat(_MESSAGES)
        begun.clear()
        entered = await _calls(lambda: wrapper.chat(_MESSAGES))
        return len(entered), sum(sql.startswith("BEGIN IMMEDIATE") for sql in begun)


async def _calls(call: Callable[[], Awaitable[object]]) -> list[tuple[str, str]]:
    """Return, for each function of the packages that a call enters, its caller's file and its own.

    Functions of other libraries in between are left out.
    """
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_OURS):
            caller = frame.f_back
            while caller is not None and not caller.f_code.co_filename.startswith(_OURS):
                caller = caller.f_back
            file = frame.f_code.co_filename
            calls.append((caller.f_code.co_filename if caller else "", file))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        await call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls
