"""Open a ledger's file for reading alone."""

import sqlite3

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.sqlite import forks, schema
from budget_cpython.ledger.sqlite.place import Place


class View(sqlite3.Connection):
    """A connection that only reads; a fork closes it."""

    def hold_still(self) -> None:
        """Close it for good."""
        self.close()

    def go_on(self) -> None:
        """Stay closed."""


def view(place: Place) -> View:
    """Open a file for reading alone. Raises `LedgerUnavailableError`."""
    with forks.lock:
        db = _open(place)
        forks.close_before(db)
    return db


def _open(place: Place) -> View:
    try:
        place.look()
        db = sqlite3.connect(place.uri("ro"), check_same_thread=False, uri=True, factory=View)
    except (sqlite3.Error, OSError) as error:
        raise LedgerUnavailableError(f"cannot read {place.path!r}: {error}", error) from error
    try:
        db.execute("PRAGMA query_only = ON")
        if not schema.check(db, place.path):
            raise LedgerUnavailableError(f"there is no ledger in {place.path!r} yet")
    except BaseException as error:
        db.close()
        if isinstance(error, sqlite3.Error):
            text = f"cannot read {place.path!r}: {error}"
            raise LedgerUnavailableError(text, error) from error
        raise
    return db
