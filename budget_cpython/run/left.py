"""Say what is left of the accounts that a run draws on, without waiting for a ledger."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from budget_core.errors import BudgetError
from budget_cpython.adapters.layer import Layer
from budget_cpython.deadline import Deadline
from budget_cpython.run.report import left_line

_EVERY_S = 2.0
_CLOSING_S = 5.0


class Left:
    """What is left of accounts, asked for every two seconds in a thread; a ledger may be slow."""

    def __init__(self, layers: Sequence[Layer], deadline: Deadline) -> None:
        self._layers = layers
        self._deadline = deadline
        self._rows: list[Any] = []
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="microbudget-left", daemon=True)
        self._thread.start()

    def text(self) -> str:
        """Return it on one line; empty if nothing is limited."""
        return left_line(self._rows, self._deadline.remaining_seconds())

    def close(self) -> None:
        """Ask no more."""
        self._closed.set()
        self._thread.join(_CLOSING_S)

    def _ask(self) -> None:
        while not self._closed.is_set():
            with suppress(BudgetError):  # it is asked again
                self._rows = [row for layer in self._layers for row in layer.balance()]
            self._closed.wait(_EVERY_S)
