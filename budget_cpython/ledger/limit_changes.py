"""Changes of an account's limits: who may make one, and the event that says who did.

A program replaces those that its own line names, by its ledger: `run --account` refuses an account
that has others, and the default ledger logs a change as a warning. A client of a service needs a
key with the right `limits` for the account or one above it, as the table in `operations` says; a
service without keys lets every client on its machine do so.
"""

import getpass
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.journal import LedgerEvent

DEVICES = "_devices/"  # accounts whose limits are what devices reported last
CHANGED_BY: ContextVar[str | None] = ContextVar("microbudget.changed_by", default=None)


def changed_by() -> str:
    """Return who changes limits here: `key NAME` in a service, else `user NAME` if it is known."""
    named = CHANGED_BY.get()
    if named is not None:
        return named
    try:
        return f"user {getpass.getuser()}"
    except (ImportError, KeyError, OSError):
        return ""


def change_of(
    path: str, before: Sequence[Limit], after: Sequence[Limit], by: str
) -> list[LedgerEvent]:
    """Return the event of limits that were replaced; none where they are the same."""
    was, now = _rows(before), _rows(after)
    if was == now or path.startswith(DEVICES):
        return []
    return [LedgerEvent("limits", path, {"before": was, "after": now, "by": by})]


def _rows(limits: Sequence[Limit]) -> list[list[Any]]:
    key = lambda limit: (limit.axis, limit.window)  # noqa: E731
    return [[one.axis, one.cap, one.window] for one in sorted(limits, key=key)]
