"""Tell whether a ledger's file can be trusted: whole, and the one that its log belongs to."""

import sqlite3
from contextlib import closing
from struct import pack, unpack_from

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
_HEADER = 32
_FRAME = 24  # bytes before each page
_LITTLE = 0x377F0682  # how a log begins whose checksums are little-endian


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


def check_frames(db: sqlite3.Connection, file: LedgerFile) -> None:
    """Raise `LedgerCorruptError` if SQLite takes a log to end before commits that were synced.

    It takes the first damaged frame for the end. Each commit is synced before the next is written,
    so that a crash can tear the last one only. See sqlite.org/walformat.html.
    """
    db.execute("BEGIN IMMEDIATE")  # nothing is written meanwhile
    try:
        with open(file.log, "rb") as log:  # closing it gives up no lock: SQLite has none on it
            data = log.read()
    except OSError as error:
        text = f"the log of the ledger {file.path!r} cannot be read: {error}"
        raise LedgerUnavailableError(text, error) from error
    finally:
        db.execute("ROLLBACK")
    if len(data) > _HEADER and any(data[:_HEADER]) and _lost(data) > 1:
        raise file.corrupt("is damaged: commits in its log cannot be read")


def _lost(data: bytes) -> int:
    """Return how many commits of a log lie behind what is damaged; all if that is its header."""
    order = "<" if unpack_from(">I", data)[0] == _LITTLE else ">"
    found = _checksum(order, data[:24], (0, 0))
    if data[24:_HEADER] != pack(">2I", *found):
        return len(data)
    at, size = _HEADER, _FRAME + unpack_from(">I", data, 8)[0]
    while data[at + 8 : at + 16] == data[16:24] and at + size <= len(data):
        found = _checksum(order, data[at : at + 8] + data[at + _FRAME : at + size], found)
        if data[at + 16 : at + _FRAME] != pack(">2I", *found):
            break
        at += size
    frames = [data[one : one + 16] for one in range(at, len(data) - size + 1, size)]
    return sum(one[8:] == data[16:24] and one[4:8] != bytes(4) for one in frames)


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    one, two = sums
    words = unpack_from(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        one = (one + words[at] + two) & 0xFFFFFFFF
        two = (two + words[at + 1] + one) & 0xFFFFFFFF
    return one, two


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
