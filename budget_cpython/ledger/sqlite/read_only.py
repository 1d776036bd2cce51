"""Open a ledger's file for reading alone."""

import sqlite3
from contextlib import ExitStack, closing

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.sqlite import forks, schema
from budget_cpython.ledger.sqlite.connection import SQLITE_ERRORS
from budget_cpython.ledger.sqlite.ledger_file import LedgerFile


class ReadOnlyConnection(sqlite3.Connection):
    """A connection that only reads; a fork closes it."""

    def before_fork(self) -> None:
        """Close it for good."""
        self.close()

    def after_fork(self, in_child: bool) -> None:
        """Stay closed."""


def open_read_only(file: LedgerFile) -> ReadOnlyConnection:
    """Open a ledger's file for reading alone. Raises `LedgerUnavailableError`."""
    with forks.lock, ExitStack() as stack:
        try:
            file.check()
            db = sqlite3.connect(
                file.uri("ro"), check_same_thread=False, uri=True, factory=ReadOnlyConnection
            )
            stack.enter_context(closing(db))
            db.execute("PRAGMA query_only = ON")
            if not schema.check(db, file.path):
                raise LedgerUnavailableError(f"there is no ledger in {file.path!r} yet")
        except (*SQLITE_ERRORS, OSError) as error:
            raise LedgerUnavailableError(f"cannot read {file.path!r}: {error}", error) from error
        forks.close_before(db)
        stack.pop_all()  # it stays open
    return db
