"""Make calls as an adapter does, without an SDK."""

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
