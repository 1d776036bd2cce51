"""Make calls as an adapter does, without an SDK."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from budget_core import ChatResponse
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.layer import Layer
from budget_cpython.adapters.request import Admitted, Request

USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def a_request(**asked: Any) -> Request:
    """Return a request for a short answer, unless something else is asked for."""
    asked = {"max_tokens": 20, **asked}
    return Request("gpt-4o-mini", [{"role": "user", "content": "Hello?"}], **asked)


def an_answer(usage: Any = USAGE) -> ChatResponse:
    """Return a model's answer with a usage report."""
    return ChatResponse("Hello.", usage=usage)


def call_blocking(*layers: Layer, usage: Any = USAGE, **asked: Any) -> Admitted:
    """Make one call and return as what it was admitted."""
    call = BudgetedCall(layers, a_request(**asked))
    admitted = call.begin_blocking()
    call.end_blocking(an_answer(usage))
    return admitted


async def call_async(*layers: Layer, usage: Any = USAGE, **asked: Any) -> Admitted:
    """Make one call from asyncio and return as what it was admitted."""
    call = BudgetedCall(layers, a_request(**asked))
    admitted = await call.begin()
    await call.end(an_answer(usage))
    return admitted


def run_example(name: str, *arguments: str) -> str:
    """Run a program of `examples/sdks` by itself, and return what it printed."""
    root = Path(__file__).parents[2]
    program = [sys.executable, str(root / "examples/sdks" / name), *arguments]
    done = subprocess.run(
        program, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
