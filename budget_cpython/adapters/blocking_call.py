"""A framework's call in one coroutine, which is awaited, or run to its end by `finish`."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from budget_core.provider import ChatResponse
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.settling import settled
from budget_cpython.context.deadline import Deadline
from budget_cpython.vendors.request import Admitted


class BlockingCall(BudgetedCall):
    """A `BudgetedCall` none of whose coroutines ever waits: it needs no event loop."""

    async def begin(self) -> Admitted:
        """Admit the call as `begin_blocking` does."""
        return self.begin_blocking()

    async def end(self, response: ChatResponse) -> None:
        """Record the usage of an answered call, as `end_blocking` does."""
        self.end_blocking(response)

    async def fail(self, error: BaseException) -> None:
        """Settle a call that failed as `fail_blocking` does."""
        self.fail_blocking(error)


@asynccontextmanager
async def answering_either(call: BudgetedCall) -> AsyncIterator[None]:
    """Have a call answered, before the current deadline if it is awaited; settle one that fails.

    Raises `DeadlineExceeded`.
    """
    scope: AbstractAsyncContextManager[Any] = nullcontext()
    if not isinstance(call, BlockingCall):
        scope = Deadline.current().scope()
    async with settled(call), scope:
        with call.answering():
            yield
