"""Do the operations of a ledger in a file as a whole, or not at all."""

import sqlite3
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from budget_cpython.ledger.sqlite.stored import StoredLedger

OPERATIONS = (
    "set_limits", "limits", "accounts", "reserve", "charge", "commit", "release", "extend",
    "expire", "hold", "balance", "history",
)  # fmt: skip
_Kind = TypeVar("_Kind", bound="type[StoredLedger]")


def whole(kind: _Kind) -> _Kind:
    """Have every operation of a class undone where it is interrupted, wherever that is.

    A signal's handler may raise as `__exit__` is entered, before any `try` of its own.
    """
    for name in OPERATIONS:
        setattr(kind, name, _whole(getattr(kind, name)))
    return kind


def _whole(operation: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(operation)
    def operate(self: "StoredLedger", *args: Any, **options: Any) -> Any:
        if self._file.is_mine():  # a signal's handler, or a clock, in the midst of one
            raise self._file.locked()
        try:
            return operation(self, *args, **options)
        except BaseException as error:
            try:
                self.undo(error)
            except BaseException:  # a signal's handler may raise here, too
                self.undo(error)
                raise
            if isinstance(error, sqlite3.Error):
                raise self._file.trouble(error) from error
            raise

    return operate
