"""Wait for servers, as long as a busy machine takes."""

import time
from collections.abc import Callable
from typing import Any

from budget_core.ledger.errors import LedgerUnavailableError

PATIENCE = 30  # seconds
NO_HURRY = 600  # seconds, for who waits for others that may be stalled


def until(ask: Callable[[], Any], *errors: type[Exception], patience: float = PATIENCE) -> Any:
    """Ask again and again until there is an answer; errors are none."""
    end = time.monotonic() + patience
    passing: tuple[type[Exception], ...] = (LedgerUnavailableError, *errors)
    while True:
        try:
            answer = ask()
        except passing:
            answer = None
        if answer:
            return answer
        assert time.monotonic() < end, "there is no answer"
        time.sleep(0.01)
