"""Let the core's ledger decide about accounts and holds that are kept elsewhere."""

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any

from budget_core.ledger import memory
from budget_cpython.ledger.windows import Window


class LoadedLedger(memory.Ledger):
    """The core's ledger, with no accounts and holds but those that one operation has loaded.

    Its clock stands still from `begin` on.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        windows: Callable[[Any], Window],
        axes: Sequence[str] | None,
        max_accounts: int,
        keep: int,
    ) -> None:
        super().__init__(
            clock, Lock(), windows=windows, axes=axes, max_accounts=max_accounts, keep=keep
        )
        self.parse_window = lru_cache(64)(windows)
        self._read_clock = clock
        self._kept_ms = keep * 1000
        self.now = 0  # Unix milliseconds
        self.kept_until = 0  # what is settled now; 0 without a date
        self.account_count = 0
        self.limits_by_path = self._accounts
        self.holds = self._live  # by name, live or settled

    def begin(self) -> None:
        """Forget the operation before, and read the clock."""
        for loaded in (self._accounts, self._live, self._settled, self._former):
            loaded.clear()
        self.now = now = int(self._read_clock() * 1000)
        self.kept_until = now and now + self._kept_ms

    def _now(self) -> int:
        return self.now

    def _count_accounts(self) -> int:
        return self.account_count

    def _new_id(self) -> str:
        return f"#{self.now:x}-{os.urandom(6).hex()}"  # in order, which keeps an index small
