"""Open a ledger's file, and make one transaction at a time on it."""

import os
import random
import sqlite3
import time
from contextlib import suppress
from threading import Lock

from budget_core.ledger_errors import LedgerError, LedgerFullError, LedgerUnavailableError
from budget_cpython.ledger.sqlite import forks, schema
from budget_cpython.ledger.sqlite.place import Place

_LONGEST_NAP = 0.01
_LOG_PAGES = 4000  # 16 MB: an operation writes three or four, mostly the same ones
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
        self._lock = Lock()
        self._pid = 0  # of the process that has it open
        forks.close_before(self)

    def begin(self) -> None:
        """Begin a transaction that keeps every other writer out; it ends by `commit` or `abort`."""
        until = time.monotonic() + self._timeout
        if not self._lock.acquire(timeout=self._timeout):
            raise self._locked()
        try:
            self._begin(until)
        except (sqlite3.Error, OSError) as error:
            self._after(error)
            self._lock.release()
            raise self.trouble(error) from error
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, until: float) -> None:
        """Ask for the write lock again and again, at random: SQLite's own waiting starves some."""
        nap = 0.0002
        while True:
            try:
                if self._pid != os.getpid():
                    self._open()
                self.db.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() >= until:
                    raise self._locked(error) from error
            time.sleep(nap * (0.5 + random.random()))  # noqa: S311 - naps, not secrets
            nap = min(nap * 1.2, _LONGEST_NAP)

    def commit(self) -> None:
        """Make all of it last, or none; an error says if that is not known."""
        try:
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            self._after(error)
            raise self.trouble(error, None) from error
        finally:
            self._lock.release()

    def abort(self, error: BaseException | None = None) -> None:
        """Make none of it last."""
        try:
            self._roll_back()
            self._after(error)
        finally:
            self._lock.release()

    def trouble(self, error: Exception, applied: bool | None = False) -> LedgerError:
        """Return what a ledger raises for what SQLite said."""
        text = f"the ledger {self._place.path!r} cannot be used: {error}"
        if _code(error) == sqlite3.SQLITE_FULL:
            return LedgerFullError(text)
        return LedgerUnavailableError(text, error, applied)

    def close(self) -> None:
        """Close the file until it is next used."""
        with self._lock:
            self._close()

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
        self._place.prepare()
        db = sqlite3.connect(
            self._place.uri("rw"),
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        try:
            schema.check(db, self._place.path)
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                text = f"the ledger {self._place.path!r} is where SQLite cannot keep a WAL"
                raise LedgerUnavailableError(text)
            db.execute("PRAGMA synchronous = FULL")
            db.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            schema.migrate(db, self._place.path)
        except BaseException:
            db.close()
            raise
        self.db, self._pid = db, os.getpid()

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def _after(self, error: BaseException | None) -> None:
        """Give up a connection that had trouble: what it remembers may not be what is there."""
        if isinstance(error, sqlite3.Error) and _code(error) not in _PASSING:
            self._close()

    def _close(self) -> None:
        if self._pid == os.getpid():
            self._pid = 0
            with suppress(sqlite3.Error):
                self.db.close()

    def _locked(self, error: Exception | None = None) -> LedgerUnavailableError:
        text = f"the ledger {self._place.path!r} was locked for {self._timeout} s"
        return LedgerUnavailableError(text, error)

    def __del__(self) -> None:
        self._close()


class View(sqlite3.Connection):
    """A connection that only reads; a fork closes it."""

    def hold_still(self) -> None:
        """Close it for good."""
        self.close()

    def go_on(self) -> None:
        """Stay closed."""


def view(place: Place) -> View:
    """Open a file for reading alone. Raises `LedgerUnavailableError`."""
    try:
        place.look()
        db = sqlite3.connect(place.uri("ro"), check_same_thread=False, uri=True, factory=View)
    except (sqlite3.Error, OSError) as error:
        raise LedgerUnavailableError(f"cannot read {place.path!r}: {error}", error) from error
    try:
        db.execute("PRAGMA query_only = ON")
        schema.check(db, place.path)
    except BaseException as error:
        db.close()
        if isinstance(error, sqlite3.Error):
            text = f"cannot read {place.path!r}: {error}"
            raise LedgerUnavailableError(text, error) from error
        raise
    forks.close_before(db)
    return db


def _code(error: Exception) -> int:
    """Return SQLite's primary code, -1 for what is not SQLite's."""
    return getattr(error, "sqlite_errorcode", -1) & 0xFF
