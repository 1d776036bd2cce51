"""The ledgers that calls of threads and of asyncio draw on, each opened once in a process."""

import os
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any

from budget_core.errors import BudgetError
from budget_core.ledger import memory
from budget_core.ledger.llm_account import IN_PROCESS, LedgerAccount
from budget_core.ledger.outbox import finish
from budget_cpython.context.process_state import GIVEN_LEDGERS, LOCK, OPENED_LEDGERS, at_end
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.opening import open_ledger, sqlite_path
from budget_cpython.ledger.process import give_process
from budget_cpython.ledger.threaded import ThreadedLedger


class ForkedLedgerError(BudgetError):
    """A forked process has a copy of a ledger in memory, so its calls would not be counted."""

    sent = False

    def __init__(self, account: str) -> None:
        super().__init__(
            f"the budget of {account} is in the memory of the process that forked this one, where "
            "its calls cannot be counted: give the budget a ledger that processes share, such as "
            'ledger="sqlite:budget.db", or make it in this process'
        )


class LedgerPair:
    """One ledger, for calls that block and for those that await in any event loop.

    `ledger` is an open one of either kind, or a URL. Calls that block ask it if it `blocks`; those
    of asyncio ask `awaited`.
    """

    def __init__(self, ledger: Any) -> None:
        if isinstance(ledger, str):
            ledger = Ledger() if ledger == "memory:" else open_ledger(ledger)
        give_process(ledger)
        self.ledger: Any = ledger
        self.blocks = not is_awaited(ledger)
        is_quick = not self.blocks or isinstance(ledger, memory.Ledger)
        self.awaited = ledger if is_quick else ThreadedLedger(ledger)


def pair_of(ledger: Any) -> LedgerPair:
    """Return the one pair of an open ledger, or of a URL, which a process opens once.

    Two URLs of one SQLite file are the same ledger, as `sqlite:a.db` and `sqlite:./a.db`.
    Raises what `open_ledger` does.
    """
    known: Any = OPENED_LEDGERS if isinstance(ledger, str) else GIVEN_LEDGERS
    key = _url_key(ledger) if isinstance(ledger, str) else id(ledger)
    with LOCK:
        pair: LedgerPair | None = known.get(key)
        if pair is None:
            pair = known[key] = LedgerPair(ledger)
        return pair


def _url_key(url: str) -> str:
    scheme, _, place = url.partition(":")
    return url if scheme != "sqlite" else f"sqlite:{os.path.realpath(sqlite_path(place))}"


def is_awaited(ledger: Any) -> bool:
    """Tell whether a ledger's methods are awaited."""
    return iscoroutinefunction(getattr(ledger, "reserve", None))


def _close() -> None:
    """Deliver the outboxes of ledgers that block, and close the ledgers of URLs."""
    for ledger in list(IN_PROCESS):
        with suppress(Exception):  # the others are still owed something
            if IN_PROCESS[ledger].outbox.entries and not is_awaited(ledger):
                finish(LedgerAccount(ledger, "agent").flush())
    for pair in OPENED_LEDGERS.values():
        with suppress(Exception):
            pair.ledger.close()


at_end(_close)
