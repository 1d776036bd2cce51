"""How much code there is, and how much of it one call passes through, on CPython.

A hop is a call from a function in one file of the packages to a function in another. Functions are
counted each time one is entered.
"""

import ast
import asyncio
import io
import sqlite3
import sys
import threading
import tokenize
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from unittest import mock

from benchmarks.figures import Figure
from benchmarks.mpy import ROOT
from budget_core.agent.tool import Tool
from budget_core.provider import maybe_await
from budget_cpython import (
    BudgetWrapper,
    ChatResponse,
    DailyBudgetConfig,
    DailyBudgetTracker,
    FileBudgetStore,
    Ledger,
    Limit,
    Operative,
    SqliteLedger,
    ToolCall,
    budgeted,
)
from budget_cpython.ledger.postgres.backend import PostgresBackend
from budget_cpython.ledger.redis.runner import Runner
from tests.ledger import engines

PACKAGES = ("budget_core", "budget_cpython")
MOST_LINES = 36_923  # of both packages
MOST_CALLED = 260
MOST_FILES = 47
MOST_HOPS = 16
MOST_WRITES = 2
MOST_BUILT = 200
MOST_STEPS = 7  # of a run of three calls: its balance, and two operations a call
_LINES_NOTE = (
    "Lines of code are counted without blank lines, comments and docstrings. 35,600 were wanted "
    "for both packages: what is left has a promise of these pages. Targets of one package each "
    "are retired."
)
_ENTERED_NOTE = (
    "The functions of a wrapped call on SQLite had a target of 120, which is retired: small "
    "functions are wanted, and what a call costs is its transactions."
)
_OPENAI_NOTE = (
    "40 files were wanted for an openai call. Those beyond are modules of the core that a chip "
    "loads one by one, and the rooms of vendors and prices, which other adapters use without HTTP."
)
_OURS = tuple(str(ROOT / package) for package in PACKAGES)
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_MODEL = "gpt-4o-mini"
_MESSAGES = [{"role": "user", "content": "hello"}]
_PLAIN = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
_CACHED = {**_PLAIN, "prompt_tokens_details": {"cached_tokens": 20}}


class Model:
    """A model that answers at once, with one usage report; it begins with some tool calls."""

    def __init__(self, usage: dict[str, Any], calls: int = 0) -> None:
        self.response = ChatResponse("hi", usage=usage)
        called = ChatResponse("", [ToolCall("1", "read", {})], "tool_calls", usage)
        self.first = [called] * calls

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
        """Return the next answer."""
        return self.first.pop() if self.first else self.response


def measure(quick: bool = False) -> list[Figure]:
    """Return lines, hops, functions and transactions; `quick` changes nothing."""
    lines = {name: _lines(name) for name in PACKAGES}
    with TemporaryDirectory() as folder:
        hops = asyncio.run(_day(Path(folder)))
        entered, writes = asyncio.run(_ledger(Path(folder)))
        steps = asyncio.run(_three_calls(Path(folder)))
        asked, files, built = asyncio.run(_openai(Path(folder)))
    return [
        *[Figure(f"lines of code: {name}", lines[name]) for name in PACKAGES],
        Figure("lines of code: both", sum(lines.values()), "", MOST_LINES, _LINES_NOTE),
        Figure("hops between files: a usage report to the day's file", hops, "", MOST_HOPS),
        Figure("functions entered: a wrapped call on SQLite", entered, note=_ENTERED_NOTE),
        Figure("functions entered: an openai call on SQLite", asked, "", MOST_CALLED, _OPENAI_NOTE),
        Figure("files entered: an openai call on SQLite", files, "", MOST_FILES),
        Figure("functions entered: a budget round an openai client", built, "", MOST_BUILT),
        Figure("write transactions: a wrapped call on SQLite", writes, "", MOST_WRITES),
        *[Figure(f"{name}, a run of three calls", steps[name], "", MOST_STEPS) for name in steps],
    ]


def _lines(package: str) -> int:
    return sum(lines_of_code(path.read_text()) for path in (ROOT / package).rglob("*.py"))


def lines_of_code(source: str) -> int:
    """Return the lines of a module that are not blank, nor a comment or docstring alone."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines)


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
    with _transactions() as begun, SqliteLedger(folder / "ledger.db") as ledger:
        ledger.set_limits("org", [Limit("tokens", 10**12, "day")])
        wrapper = BudgetWrapper(Model(_PLAIN), ledger=ledger, account="org/agent")
        await wrapper.chat(_MESSAGES)
        begun.clear()
        entered = await _calls(lambda: wrapper.chat(_MESSAGES))
        return len(entered), len(begun)


async def _openai(folder: Path) -> tuple[int, int, int]:
    """Return the functions and files of one budgeted openai call, and of budgeting its client."""
    import httpx
    import openai

    message = {"role": "assistant", "content": "hi"}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    answer = {"id": "1", "object": "chat.completion", "created": 0, "model": _MODEL}
    body = {**answer, "choices": choices, "usage": _PLAIN}
    sending = httpx.MockTransport(lambda request: httpx.Response(200, json=body))
    made: list[Any] = []
    with SqliteLedger(folder / "openai.db") as ledger, httpx.Client(transport=sending) as http:
        plain: Any = http
        bare = openai.OpenAI(api_key="none", http_client=plain)

        async def build() -> None:
            limits = "1_000_000_000 tokens/day"
            made.append(budgeted(bare, limits, ledger=ledger, account="org/agent"))

        async def ask() -> None:
            made[0].chat.completions.create(model=_MODEL, messages=_MESSAGES, max_tokens=99)

        await build()  # which imports what it needs
        built = await _calls(build)
        await ask()
        asked = await _calls(ask)
    return len(asked), len({file for _, file in asked}), len(built)


async def _three_calls(folder: Path) -> dict[str, int]:
    """Return the write transactions on SQLite, and the round trips to other engines."""
    found: dict[str, int] = {}
    with _transactions() as begun, SqliteLedger(folder / "run.db") as ledger:
        found["write transactions, SQLite"] = await _run_on(ledger, begun)
    for name, engine, backend, sends in (
        ("Redis", engines.Redis(folder), Runner, "run"),
        ("Postgres", engines.Postgres(folder), PostgresBackend, "_execute"),
    ):
        with closing(engine), _noted(backend, sends) as sent:
            found[f"round trips, {name}"] = await _run_on(engine.make(), sent)
    with _noted(engines.OverHttp, "_exchange") as sent:
        found["round trips, HTTP"] = await _run_on(engines.OverHttp(Ledger()), sent)
    return found


async def _run_on(ledger: Any, noted: list[str]) -> int:
    """Return how much is noted during a run of three LLM calls, of which two call a tool."""
    await maybe_await(ledger.set_limits("org", [Limit("tokens", 10**12, "day")]))
    read = Tool("read", "Reads a file.", lambda: "text")
    agent = Operative(Model(_PLAIN, 2), [read], ledger=ledger, account="org/agent")
    noted.clear()
    result = await agent.run("What is in the file?")
    if result.turns != 3 or not result.completed:
        raise AssertionError(f"three calls were wanted, not {result}")
    return len(noted)


@contextmanager
def _transactions() -> Iterator[list[str]]:
    """Note the write transactions that begin."""
    begun: list[str] = []
    connect = sqlite3.connect

    def note(sql: str) -> None:
        if sql.startswith("BEGIN IMMEDIATE"):
            begun.append(sql)

    def watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = connect(*arguments, **options)
        db.set_trace_callback(note)
        return db

    with mock.patch("sqlite3.connect", watched):
        yield begun


@contextmanager
def _noted(kind: Any, name: str) -> Iterator[list[str]]:
    """Note the calls of a method."""
    method, calls = getattr(kind, name), []

    async def noted(*arguments: Any) -> Any:
        calls.append(name)
        return await method(*arguments)

    with mock.patch.object(kind, name, noted):
        yield calls


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
