"""The error of a damaged ledger, which chips do not need, and the pickling of all errors."""

import copyreg

from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class LedgerCorruptError(LedgerUnavailableError):
    """A ledger's file is damaged, was removed, or is not the one that was there.

    Nothing is granted, also not offline, until it is restored; docs/operating.md says how.
    """


_EXCEEDED = (
    "scope", "axis", "window", "asked", "limit", "spent", "held", "resets_at", "now", "waited_ms"
)  # fmt: skip
ERRORS: "dict[type[LedgerError], tuple[str, ...]]" = {
    BudgetExceededError: _EXCEEDED,
    UnknownAccountError: ("path",),
    UnknownHoldError: ("path", "id"),
    HoldSettledError: ("id", "state"),
    KeyReusedError: ("path", "key"),
    LedgerFullError: (),
    LedgerUnavailableError: ("applied",),
    LedgerCorruptError: ("applied",),
}


def arguments(error: LedgerError) -> "list[Any]":
    """Return what rebuilds an error; of its cause only the text is kept."""
    named = [getattr(error, name) for name in ERRORS[type(error)]]
    if isinstance(error, LedgerUnavailableError):
        return [str(error), None, *named]
    return [str(error)] if isinstance(error, LedgerFullError) else named


def _reduce(error: LedgerError) -> "tuple[Callable[..., LedgerError], tuple[Any, ...]]":
    return type(error), tuple(arguments(error))


for _kind in ERRORS:
    copyreg.pickle(_kind, _reduce)
