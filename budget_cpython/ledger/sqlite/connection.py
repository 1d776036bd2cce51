"""Open a ledger's file, and make one transaction at a time on it."""

import os
import random
import sqlite3
import time
from contextlib import suppress
from threading import RLock, get_ident

from budget_core.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError
from budget_cpython.ledger.sqlite import forks, schema
from budget_cpython.ledger.sqlite.place import LOG, Place

_LONGEST_NAP = 0.01
_PAGE = 1024  # bytes: an operation writes three or four pages, whole
_LOG_PAGES = 2000  # 2 MB: while a log grows, each sync costs more
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL)  # the connection is as good as before


class Connection:
    """What all threads of this process write to one file through, a transaction at a time.

    The file is opened by the first transaction, and again after trouble, `close` and a fork. Who
    cannot begin within `timeout` seconds gets a `LedgerUnavailableError`.
    """

    def __init__(self, place: Place, timeout: float) -> None:
        self.db: sqlite3.Connection
        self._place = place
        self._timeout = timeout
        self._lock = RLock()
        self._owner = 0  # the thread that has begun
        self._pid = 0  # of the process that has it open
        self._identity: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        self._left: tuple[int, int] | None = None  # the log of a file that was replaced
        forks.close_before(self)

    def is_mine(self) -> bool:
        """Tell whether this thread has begun what is not over."""
        return self._owner == get_ident()

    def begin(self) -> None:
        """Begin a transaction that keeps every other writer out, until `release` or `give_up`."""
        until = time.monotonic() + self._timeout
        if not self._lock.acquire(False) and not self._lock.acquire(timeout=self._timeout):
            raise self.locked()
        self._owner = get_ident()
        nap = 0.0002
        while True:  # again and again, at random: SQLite's own waiting starves some
            try:
                if self._pid != os.getpid():
                    self._open()
                self.db.execute("BEGIN IMMEDIATE")
                if self._place.identity() == self._identity:
                    return
                self._leave()
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() >= until:
                    raise self.locked(error) from error
            time.sleep(nap * (0.5 + random.random()))  # noqa: S311 - naps, not secrets
            nap = min(nap * 1.2, _LONGEST_NAP)

    def _leave(self) -> None:
        """Close a file in whose place another lies by now, or none."""
        if self._place.identity(LOG) == self._log:
            self._left = self._log
        self._close()

    def check(self) -> None:
        """Refuse a file that somebody else has brought to another version."""
        if schema.check(self.db, self._place.path) != len(schema.MIGRATIONS):
            raise LedgerUnavailableError(f"there is no ledger in {self._place.path!r} any more")

    def commit(self) -> None:
        """Make all of it last, or none; an error says if that is not known."""
        try:
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            self._after(error)
            raise self.trouble(error, None) from error

    def release(self) -> None:
        """Let another thread begin, after `commit`."""
        self._owner = 0
        self._lock.release()

    def give_up(self, error: BaseException) -> None:
        """Make none of it last, wherever the error came; nothing where this thread began nothing.

        A signal's handler may raise between any two steps, so the lock is asked whose it is.
        """
        if self.is_mine():
            self._roll_back()
            self._after(error)
            self._owner = 0
        with suppress(RuntimeError):  # it is not this thread's
            while True:
                self._lock.release()

    def trouble(self, error: Exception, applied: bool | None = False) -> LedgerError:
        """Return what a ledger raises for what SQLite said."""
        text = f"the ledger {self._place.path!r} cannot be used: {error}"
        if _code(error) == sqlite3.SQLITE_FULL:
            return LedgerFullError(text)
        return LedgerUnavailableError(text, error, applied)

    def close(self) -> None:
        """Close the file until it is next used; `LedgerUnavailableError` where it is in use."""
        if self.is_mine():
            raise self.locked()
        try:
            if not self._lock.acquire(timeout=self._timeout):
                raise self.locked()
            self._close()
            self._lock.release()
        except BaseException as error:
            self.give_up(error)
            raise

    def hold_still(self) -> None:
        """Close the file and keep it so."""
        self._lock.acquire()
        self._close()

    def go_on(self) -> None:
        """Let the file be opened again."""
        self._lock.release()

    def _open(self) -> None:
        if self._pid:
            raise LedgerUnavailableError(
                f"the ledger {self._place.path!r} is open in process {self._pid}, which was forked "
                "in a way that Python does not see: make the ledger anew after the fork"
            )
        path = self._place.path
        try:
            self._place.prepare()
        except OSError as error:
            if error.errno is None:
                raise  # the application's own, out of a signal's handler
            raise self.trouble(error) from error
        if self._left and self._place.identity(LOG) == self._left and os.path.getsize(path):
            raise LedgerUnavailableError(
                f"another file took the place of the ledger {path!r}, beside which the log of the "
                f"one before still is: stop all who use it, and remove {path + LOG!r}"
            )
        pid, identity = os.getpid(), self._place.identity()
        db = sqlite3.connect(
            self._place.uri("rw"),
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        try:
            schema.check(db, path)
            db.execute(f"PRAGMA page_size = {_PAGE}")  # of a new file
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                text = f"the ledger {path!r} is where SQLite cannot keep a WAL"
                raise LedgerUnavailableError(text)
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            schema.migrate(db, path)
            log = self._place.identity(LOG)
        except BaseException:
            db.close()
            raise
        self.db, self._pid, self._identity, self._log = db, pid, identity, log
        self._left = None  # that log is gone, and another may get its inode

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._pid == os.getpid() and self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def _after(self, error: BaseException | None) -> None:
        """Give up a connection that had trouble: what it remembers may not be what is there."""
        if isinstance(error, sqlite3.Error) and _code(error) not in _PASSING:
            self._close()

    def _close(self) -> None:
        if self._pid == os.getpid():
            try:
                self.db.close()
            except sqlite3.Error:
                pass
            finally:
                self._pid = 0

    def locked(self, error: Exception | None = None) -> LedgerUnavailableError:
        """Return what a ledger raises for a file that others have."""
        text = f"the ledger {self._place.path!r} was locked for {self._timeout} s"
        return LedgerUnavailableError(text, error)

    def __del__(self) -> None:
        self._close()


def _code(error: Exception) -> int:
    """Return SQLite's primary code, -1 for what is not SQLite's."""
    return getattr(error, "sqlite_errorcode", -1) & 0xFF
