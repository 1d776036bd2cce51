"""A ledger's file, opened for reading alone."""

import os
import sqlite3
from contextlib import ExitStack, closing

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.context.process_state import LOCK, close_before_forks
from budget_cpython.ledger.sqlite import schema
from budget_cpython.ledger.sqlite.ledger_file import LedgerFile
from budget_cpython.ledger.sqlite.trust import SQLITE_ERRORS, check_log
from budget_cpython.plain_file import write_new


class ReadOnlyConnection(sqlite3.Connection):
    """A connection that only reads; a fork closes it."""

    def before_fork(self) -> None:
        """Close it for good."""
        self.close()

    def after_fork(self, in_child: bool) -> None:
        """Stay closed."""


def open_read_only(file: LedgerFile) -> ReadOnlyConnection:
    """Open a ledger's file for reading alone. Raises `LedgerUnavailableError`."""
    with LOCK, ExitStack() as stack:
        try:
            file.check()
            check_log(file)
            db = sqlite3.connect(
                file.uri("ro"), check_same_thread=False, uri=True, factory=ReadOnlyConnection
            )
            stack.enter_context(closing(db))
            db.execute("PRAGMA query_only = ON")
            if not schema.check(db, file.path):
                raise LedgerUnavailableError(f"there is no ledger in {file.path!r} yet")
        except (*SQLITE_ERRORS, OSError) as error:
            raise LedgerUnavailableError(f"cannot read {file.path!r}: {error}", error) from error
        close_before_forks(db)
        stack.pop_all()  # it stays open
    return db


def back_up(file: LedgerFile, copy: str) -> None:
    """Write a copy of a ledger's file, which says that it is one: no log belongs to it."""
    try:
        with closing(open_read_only(file)) as db:
            write_new(copy, b"")
            try:
                _copy(db, copy)
            except BaseException:
                os.unlink(copy)  # an empty one would be restored as a new ledger
                raise
    except (*SQLITE_ERRORS, OSError) as error:
        raise LedgerUnavailableError(f"cannot write {copy!r}: {error}", error) from error


def _copy(db: sqlite3.Connection, copy: str) -> None:
    with closing(sqlite3.connect(copy)) as target:
        db.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
        target.execute("UPDATE ledger SET inode = ''")
        target.commit()
