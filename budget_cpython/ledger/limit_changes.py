"""Say in an event what changed about the limits of an account, and who changed it."""

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
