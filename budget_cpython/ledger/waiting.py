"""Reserve in turn from an event loop, where an operation under way cannot be taken back."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from budget_core.errors import BudgetError
from budget_core.ledger import waiting
from budget_core.ledger.records import TTL, Hold
from budget_core.provider import maybe_await


async def reserve_waiting(
    ledger: Any,
    path: str,
    amounts: Mapping[str, Any],
    key: str | None = None,
    ttl: float = TTL,
    wait: float = waiting.WAIT,
    ask: "waiting.Ask | None" = None,
) -> Hold:
    """Do as the core's, and release what a cancelled call was granted at that very moment."""

    def attempt(operation: str, *arguments: Any) -> Any:
        result = ask(operation, *arguments) if ask else getattr(ledger, operation)(*arguments)
        return _finished(attempt, result) if operation == "reserve" else result

    return await waiting.reserve_waiting(ledger, path, amounts, key, ttl, wait, attempt)


async def _finished(ask: "waiting.Ask", result: Any) -> Any:
    """Return a hold; if this is cancelled meanwhile, release it first."""
    task = asyncio.ensure_future(maybe_await(result))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(BudgetError):
            await maybe_await(ask("release", await task))
        raise
