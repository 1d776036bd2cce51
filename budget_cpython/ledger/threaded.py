"""Use a ledger that blocks from asyncio."""

from asyncio import get_running_loop
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from budget_core.ledger._types import LedgerProtocol
from budget_cpython.context.process_state import begin_again_in_children
from budget_cpython.ledger.passthrough import AsyncPassthrough

THREADS = 16  # at most; each begins when it is needed


class ThreadedLedger(AsyncPassthrough):
    """A ledger whose methods are awaited, and run in threads of its own: the loop continues.

    It serves any number of event loops, side by side and one after another. Cancelling does not
    stop an operation that has begun.
    """

    IS_VIEW = True

    def __init__(self, ledger: LedgerProtocol) -> None:
        self.view_of = ledger
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Have new threads: those of asyncio may all wait for what one operation would settle."""
        self._threads = ThreadPoolExecutor(THREADS, "microbudget-ledger")

    async def _do(self, operation: str, *arguments: Any) -> Any:
        do = (copy_context().run, getattr(self.view_of, operation), *arguments)
        return await get_running_loop().run_in_executor(self._threads, *do)
