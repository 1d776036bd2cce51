"""Tell whether a log that a crash left lacks more than what the crash tore."""

import sqlite3
from struct import pack, unpack_from

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.sqlite.ledger_file import LedgerFile

_HEADER = 32
_FRAME = 24  # bytes before each page
_LITTLE = 0x377F0682  # how a log begins whose checksums are little-endian


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
