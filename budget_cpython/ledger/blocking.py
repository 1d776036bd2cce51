"""Run a ledger written for asyncio in threads.

An operation is written once, as a coroutine. Below a ledger for threads everything it awaits has
its result at once, so it runs to its end without an event loop.
"""

from typing import Any

from budget_core.ledger._types import AsyncLedgerProtocol
from budget_core.ledger.outbox import finish
from budget_cpython.ledger.passthrough import Passthrough
from budget_cpython.ledger.remote import AsyncRemoteLedger, Backend


class BlockingLedger(Passthrough):
    """A ledger for threads: each method runs the asyncio ledger's to its end."""

    def __init__(self, ledger: AsyncLedgerProtocol) -> None:
        self._ledger = ledger

    def _do(self, operation: str, *arguments: Any) -> Any:
        return finish(getattr(self._ledger, operation)(*arguments))


class RemoteLedger(BlockingLedger):
    """A ledger behind a backend, for threads; `AsyncRemoteLedger` says what the options are."""

    def __init__(self, backend: Backend, **options: Any) -> None:
        super().__init__(AsyncRemoteLedger(backend, **options))
