"""The ledgers that calls of threads and of asyncio draw on, each opened once in a process."""

import atexit
from threading import Lock
from typing import Any

from budget_core.ledger import memory
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.opening import open_async_ledger, open_ledger
from budget_cpython.ledger.threaded import ThreadedLedger

_OPENED: "dict[str, LedgerPair]" = {}
_LOCK = Lock()


class LedgerPair:
    """One ledger, for calls that block and for those that await.

    `ledger` is an open one of either kind, or a URL. An asyncio ledger serves asyncio only.
    """

    def __init__(self, ledger: Any) -> None:
        self.url = ledger if isinstance(ledger, str) else None
        if self.url is not None:
            ledger = Ledger() if self.url == "memory:" else open_ledger(self.url)
        self.ledger: Any = ledger
        self._awaited: Any = None

    def of_kind(self, is_blocking: bool) -> Any:
        """Return the ledger for calls of one kind; one of asyncio serves both in name only."""
        if is_blocking or isinstance(self.ledger, memory.Ledger) or is_awaited(self.ledger):
            return self.ledger
        if self._awaited is None:
            on_server = self.url is not None and not self.url.startswith("sqlite:")
            if on_server:
                self._awaited = open_async_ledger(str(self.url))
            else:
                self._awaited = ThreadedLedger(self.ledger)
        return self._awaited


def pair_of(ledger: Any) -> LedgerPair:
    """Return the pair of an open ledger, or the one of a URL, which a process opens once.

    Raises what `open_ledger` does.
    """
    if not isinstance(ledger, str):
        return LedgerPair(ledger)
    with _LOCK:
        if ledger not in _OPENED:
            _OPENED[ledger] = LedgerPair(ledger)
        return _OPENED[ledger]


def is_awaited(ledger: Any) -> bool:
    """Tell whether a ledger's methods are awaited."""
    from inspect import iscoroutinefunction

    return iscoroutinefunction(getattr(ledger, "reserve", None))


class WaitingLedger:
    """A blocking ledger that waits for what others hold in its own `reserve`, without a loop."""

    WAITS_ELSEWHERE = True

    def __init__(self, ledger: Any) -> None:
        self._ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)


@atexit.register
def _close() -> None:
    for pair in _OPENED.values():
        pair.ledger.close()
