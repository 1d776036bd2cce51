"""Make calls as an adapter does, without an SDK; read what was asked, used and counted."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_core import ChatResponse
from budget_cpython import Deadline
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.block import BudgetBlock
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.vendors.request import Admitted, LlmRequest
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def a_request(**asked: Any) -> LlmRequest:
    """Return a request for a short answer, unless something else is asked for."""
    asked = {"model": "gpt-4o-mini", "max_tokens": 20, **asked}
    return LlmRequest(messages=[{"role": "user", "content": "Hello?"}], **asked)


def an_answer(usage: Any = USAGE) -> ChatResponse:
    """Return a model's answer with a usage report."""
    return ChatResponse("Hello.", usage=usage)


def call_blocking(*accounts: BudgetAccount, usage: Any = USAGE, **asked: Any) -> Admitted:
    """Make one call and return as what it was admitted."""
    call = BudgetedCall(accounts, a_request(**asked))
    admitted = call.begin_blocking()
    call.end_blocking(an_answer(usage))
    return admitted


async def call_async(*accounts: BudgetAccount, usage: Any = USAGE, **asked: Any) -> Admitted:
    """Make one call from asyncio and return as what it was admitted."""
    call = BudgetedCall(accounts, a_request(**asked))
    admitted = await call.begin()
    await call.end(an_answer(usage))
    return admitted


def bodies(endpoint: ScriptedEndpoint) -> list[Any]:
    """Return the bodies of all requests."""
    return [request.body for request in endpoint.requests]


def tokens(endpoint: ScriptedEndpoint) -> int:
    """Return the tokens of all answers."""
    usages = [answer.usage for answer in endpoint.answers]
    return sum(usage.prompt + usage.completion for usage in usages if usage is not None)


def counted(block: BudgetBlock, axis: str) -> int:
    """Return what is spent, or held for a call whose usage is unknown."""
    rows = [row for row in block.account.balance() if row.axis == axis]
    return sum(row.spent + row.held for row in rows)


def names_of(body: Any) -> list[str]:
    """Return the names of the tools that a chat completion offers."""
    return [one["function"]["name"] for one in body.get("tools") or ()]


def looks_on(*names: str) -> Callable[[Asked], Reply]:
    """Return a model that calls tools for as long as it is offered them."""

    def reply(asked: Asked) -> Reply:
        calls = tuple(ScriptedToolCall(name, "{}") for name in names if name in asked.tools)
        return Reply("" if calls else "I saw a tomato.", calls)

    return reply


async def cancel(endpoint: ScriptedEndpoint, call: Coroutine[Any, Any, Any]) -> None:
    """Begin a call, and cancel it once its request is at the endpoint."""
    task = asyncio.create_task(call)
    while not endpoint.requests:  # noqa: ASYNC110 - it comes in another thread
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def until_sent(endpoint: ScriptedEndpoint) -> Iterator[Deadline]:
    """Yield later and later deadlines, until a request came before one."""
    before = len(endpoint.requests)
    for seconds in (0.5, 4, 30, 300):
        if len(endpoint.requests) == before:
            yield Deadline.from_now(seconds)


def used(account: BudgetAccount, axis: str = "tokens") -> tuple[int, int]:
    """Return what an account's own account spent on an axis, and what it holds."""
    rows = [row for row in account.balance() if row.account == account.path]
    (row,) = [row for row in rows if row.axis == axis]
    return row.spent, row.held


def run_example(name: str, *arguments: str) -> str:
    """Run a program of `examples/sdks` by itself, and return what it printed."""
    root = Path(__file__).parents[2]
    program = [sys.executable, str(root / "examples/sdks" / name), *arguments]
    done = subprocess.run(
        program, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
