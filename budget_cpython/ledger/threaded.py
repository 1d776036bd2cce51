"""Use a ledger that blocks from asyncio."""

import asyncio
from typing import Any

from budget_core.ledger._types import LedgerProtocol
from budget_cpython.ledger.passthrough import AsyncPassthrough


class ThreadedLedger(AsyncPassthrough):
    """A ledger whose methods are awaited, and run in asyncio's threads: the loop continues.

    Cancelling does not stop an operation that has begun.
    """

    def __init__(self, ledger: LedgerProtocol) -> None:
        self._ledger = ledger

    async def _do(self, operation: str, *arguments: Any) -> Any:
        return await asyncio.to_thread(getattr(self._ledger, operation), *arguments)
