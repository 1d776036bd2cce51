"""The tables of a ledger's file, and how a file of an earlier version becomes one of this."""

import os
import sqlite3
from contextlib import closing
from functools import cache
from importlib.resources import files

from budget_cpython.ledger.errors import LedgerCorruptError

APPLICATION = 0x6D_62_6C_67  # "mblg", in the header of the file: `file` and others can tell it
_SQL = files(__package__).joinpath("sql")
MIGRATIONS = tuple(  # in order
    _SQL.joinpath(name).read_text()
    for name in ("001_tables.sql", "002_operators.sql", "003_durability.sql")
)

_STATE = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
    FROM pragma_application_id, pragma_user_version
"""


def check(db: sqlite3.Connection, path: str) -> int:
    """Return a file's version, 0 for an empty one.

    Raises `LedgerCorruptError` for another program's database and for a newer version.
    """
    application, version, tables = db.execute(_STATE).fetchone()
    if application != APPLICATION and (application or version or tables):
        text = f"{path!r} is another program's database, not a ledger, or damaged"
        raise LedgerCorruptError(text)
    if version > len(MIGRATIONS):
        raise LedgerCorruptError(
            f"the ledger {path!r} has schema version {version}, and this program knows "
            f"{len(MIGRATIONS)}: it was opened by a newer microbudget, or is damaged"
        )
    return int(version)


def has_all(db: sqlite3.Connection) -> bool:
    """Return whether a file has all tables, indices and views, as the migrations make them."""
    return _wanted() <= _texts(db)


@cache
def _wanted() -> set[tuple[str, str]]:
    with closing(sqlite3.Connection(":memory:", isolation_level=None)) as fresh:
        for statement in ";".join(MIGRATIONS).split(";"):
            fresh.execute(statement)
        return _texts(fresh)


def _texts(db: sqlite3.Connection) -> set[tuple[str, str]]:
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return set(rows.fetchall())


def read_mark(db: sqlite3.Connection) -> tuple[str, str]:
    """Return the ledger's id, and the inode of the file that it was in last."""
    row = db.execute("SELECT id, inode FROM ledger").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the ledger has no id")
    return row[0], row[1]


def syncs_all(db: sqlite3.Connection) -> bool:
    """Return whether every program that used the file has synced each transaction."""
    row = db.execute("SELECT unsynced FROM durability").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the ledger does not say whether all was synced")
    return not row[0]


def note_unsynced(db: sqlite3.Connection) -> None:
    """Note for good that not every transaction is synced."""
    if syncs_all(db):
        db.execute("UPDATE durability SET unsynced = 1")


def migrate(db: sqlite3.Connection, path: str) -> None:
    """Bring a file to the newest version in one transaction; several processes may try at once.

    Raises as `check` does, and `sqlite3.Error`.
    """
    newest = len(MIGRATIONS)
    if check(db, path) == newest:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        done = check(db, path)
        for migration in MIGRATIONS[done:]:
            for statement in migration.split(";"):
                db.execute(statement)
        if not done:
            mark = (os.urandom(8).hex(), str(os.stat(path).st_ino))
            db.execute("UPDATE ledger SET id = ?, inode = ?", mark)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {newest}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
