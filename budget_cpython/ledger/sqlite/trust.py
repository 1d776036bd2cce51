"""Tell whether a ledger's file can be trusted: whole, and the one that its log belongs to."""

import sqlite3
from contextlib import closing

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.sqlite import schema
from budget_cpython.ledger.sqlite.ledger_file import LedgerFile

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)  # the latter from damaged text
_DAMAGE = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_SCHEMA,
    sqlite3.SQLITE_TOOBIG,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
)


def check_log(file: LedgerFile, id: str | None = None) -> None:
    """Raise `LedgerCorruptError` if the log that SQLite would apply to a file is another one's.

    The mark is never written to a log, so it is read from the file: a backup that took its place
    says another inode. A connection that only reads applies no log when it is closed.
    """
    if not file.has_log():
        return
    try:
        with closing(sqlite3.connect(file.uri("ro"), uri=True)) as db:
            found, inode = schema.read_mark(db)
    except SQLITE_ERRORS as error:
        if not is_damage(error):
            raise
        raise file.corrupt(f"is damaged ({error})", error) from error
    if inode != file.inode() or id not in (None, found):
        raise file.corrupt("was replaced, and the log of the one before is beside it")


def identify(db: sqlite3.Connection, file: LedgerFile, id: str | None) -> str:
    """Return the id of a file's ledger, and mark the file as the one that its log will belong to.

    Raises `LedgerCorruptError` if another `id` was known.
    """
    found, inode = schema.read_mark(db)
    if id not in (None, found):
        raise file.corrupt("is another one than before")
    if inode != file.inode():  # a copy, restored while none had it open
        (mode,) = db.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode != "delete":
            raise LedgerUnavailableError(f"the ledger {file.path!r} was replaced, and is in use")
        db.execute("UPDATE ledger SET inode = ?", (file.inode(),))
    return found


def check_whole(db: sqlite3.Connection, file: LedgerFile) -> None:
    """Raise `LedgerCorruptError` if the file's structure or schema is damaged; reads all of it."""
    ((answer,), *_) = db.execute("PRAGMA integrity_check(1)").fetchall()
    if answer == "ok" and not schema.has_all(db):
        answer = "its schema is another"
    if answer != "ok":
        raise file.corrupt(f"is damaged ({answer})")


def is_damage(error: Exception) -> bool:
    """Return whether the file's content is at fault."""
    if primary_code(error) < 0:  # not SQLite's own: text that is not UTF-8, or a row's checksum
        return isinstance(error, SQLITE_ERRORS) and not isinstance(error, sqlite3.ProgrammingError)
    header = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY  # the file is not
    return header or primary_code(error) in _DAMAGE


def primary_code(error: Exception) -> int:
    """Return SQLite's primary code, -1 for what is not SQLite's."""
    code: int = getattr(error, "sqlite_errorcode", -1)
    return code if code < 0 else code & 0xFF
