"""The connection to a ledger's file: one transaction at a time."""

import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from budget_core.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError
from budget_cpython.ledger.sqlite import schema
from budget_cpython.ledger.sqlite.ledger_file import LedgerFile
from budget_cpython.ledger.sqlite.trust import (
    SQLITE_ERRORS,
    check_frames,
    check_log,
    check_whole,
    identify,
    is_damage,
    primary_code,
)

_LONGEST_NAP = 0.01
_PAGE = 1024  # bytes: an operation writes a few pages, whole
_LOG_PAGES = 2000  # 2 MB: while a log grows, each sync costs more
_STATEMENTS = 512  # kept compiled: one for each number of rows that is looked for
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL)  # the connection is as good as before


class SqliteConnection:
    """The connection to a ledger's file, which one thread at a time uses.

    The file is opened by the first transaction, and again after an error, `close` and a fork, and
    if it was restored. It is checked whole when it is opened first. `timeout` is in seconds.
    With `syncs_all` every transaction is synced; else some need not be, and the file says so. While
    a transaction is open, `is_unchanged` says whether no other connection has written to the file
    since this one's last transaction.
    """

    def __init__(self, file: LedgerFile, timeout: float, syncs_all: bool = True) -> None:
        self.timeout = timeout
        self._file = file
        self._syncs_all = syncs_all
        self._is_synced = True  # the transaction under way, and those after it
        self.is_unchanged = False
        self._written = -1  # SQLite's count of what other connections have written
        self._db: sqlite3.Connection
        self._pid = 0  # of the process that has the file open
        self._id: str | None = None  # of the ledger that this is for from now on
        self._place: tuple[int, int, bool] | None = None
        self._whole: tuple[int, int, bool] | None = None  # the place whose file was checked

    def begin(self, until: float, is_synced: bool = True) -> sqlite3.Connection:
        """Begin a transaction, which keeps every other writer out; one that `is_synced` is durable.

        Raises `LedgerUnavailableError` if others have the file until the monotonic clock says
        `until`, or if the file's version has changed; `LedgerFullError`.
        """
        nap = 0.0002
        while True:  # at random moments: by SQLite's own waiting some processes starve
            try:
                if self._pid != os.getpid() or self._identity() != self._place:
                    self._open()
                if is_synced != self._is_synced:
                    self._sync(is_synced)
                self._db.execute("BEGIN IMMEDIATE")
                self._look()
                return self._db
            except SQLITE_ERRORS as error:
                if primary_code(error) != sqlite3.SQLITE_BUSY:
                    self.roll_back(error)
                    raise self.ledger_error(error) from error
                if time.monotonic() >= until:
                    raise self.locked(error) from error
            time.sleep(nap * (0.5 + random.random()))  # noqa: S311 - naps, not secrets
            nap = min(nap * 1.2, _LONGEST_NAP)

    def _identity(self) -> tuple[int, int, bool] | None:
        """Return which file lies there, and whether it is empty; `None` where none is seen."""
        try:
            status = os.stat(self._file.path)
        except OSError:
            return None
        return status.st_dev, status.st_ino, not status.st_size

    def _look(self) -> None:
        """Look whether another connection has written, and then whether it left the version."""
        (written,) = self._db.execute("PRAGMA data_version").fetchone()
        self.is_unchanged = written == self._written
        if not self.is_unchanged:
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if version != len(schema.MIGRATIONS):
                schema.check(self._db, self._file.path)
                raise self._file.corrupt("was emptied")
            self._written = written

    def roll_back(self, error: Exception | None = None) -> bool:
        """Undo the transaction; return whether one was open.

        After most of SQLite's errors the file is closed too: what is cached of it may be wrong.
        """
        if self._pid != os.getpid():
            return False
        found = self._db.in_transaction
        if found:
            with suppress(*SQLITE_ERRORS):
                self._db.execute("ROLLBACK")
        if isinstance(error, SQLITE_ERRORS) and primary_code(error) not in _PASSING:
            self._whole = None
            self.close()
        return found

    def ledger_error(self, error: Exception, applied: bool | None = False) -> LedgerError:
        """Return the ledger's error for one of SQLite's or the system's."""
        if is_damage(error):
            found = self._file.corrupt(f"is damaged ({error})", error)
            found.applied = applied
            return found
        text = f"the ledger {self._file.path!r} cannot be used: {error}"
        if primary_code(error) == sqlite3.SQLITE_FULL:
            return LedgerFullError(text)
        return LedgerUnavailableError(text, error, applied)

    def locked(self, error: Exception | None = None) -> LedgerUnavailableError:
        """Return the ledger's error for a file that others use."""
        text = f"the ledger {self._file.path!r} was locked for {self.timeout} s"
        return LedgerUnavailableError(text, error)

    def close(self) -> None:
        """Close the file until the next transaction."""
        if self._pid == os.getpid():
            self._pid = 0
            with suppress(sqlite3.Error):
                self._db.close()

    def _sync(self, is_synced: bool) -> None:
        """Have the next transactions synced, and all before them with the first of these, or not.

        Those that are not are whole after a loss of power, or undone.
        """
        self._db.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
        self._is_synced = is_synced

    def _open(self) -> None:
        if self._pid not in (0, os.getpid()):
            raise LedgerUnavailableError(
                f"the ledger {self._file.path!r} is open in process {self._pid}, which was forked "
                "in a way that Python does not see: make the ledger anew after the fork"
            )
        file = self._file
        try:
            file.prepare(self._id is None)  # first: to close it would write to one that was emptied
        except OSError as error:
            raise self.ledger_error(error) from error
        self.close()
        place = self._identity()
        logged = file.has_log()
        check_log(file, self._id)
        db = sqlite3.connect(
            file.uri("rw"),
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
            uri=True,
        )
        try:
            if not schema.check(db, file.path):
                db.execute(f"PRAGMA page_size = {_PAGE}")
            schema.migrate(db, file.path)  # before there is a log
            found = identify(db, file, self._id)
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                text = f"the ledger {file.path!r} is where SQLite cannot keep a WAL"
                raise LedgerUnavailableError(text)
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            if place != self._whole:
                if logged and schema.syncs_all(db):
                    check_frames(db, file)
                check_whole(db, file)
            if not self._syncs_all:
                schema.note_unsynced(db)
        except BaseException:
            db.close()
            raise
        self._db, self._pid, self._id = db, os.getpid(), found
        self._is_synced, self._written = True, -1
        self._place = self._whole = place and (*place[:2], False)

    def __del__(
        self, is_exiting: Callable[[], bool] = sys.is_finalizing, pid: Callable[[], int] = os.getpid
    ) -> None:
        if not is_exiting():
            self.close()
        elif self._pid == pid():  # what `close` needs may be gone; an open one is a warning in 3.13
            self._db.close()
