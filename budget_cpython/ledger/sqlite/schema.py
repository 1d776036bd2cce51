"""The tables of a ledger's file, and how a file of an earlier version becomes one of this."""

import sqlite3
from collections.abc import Sequence
from importlib.resources import files

from budget_core.ledger.errors import LedgerUnavailableError

APPLICATION = 0x6D_62_6C_67  # "mblg", in the header of the file: `file` and others can tell it
MIGRATIONS = (files(__package__).joinpath("sql/001_tables.sql").read_text(),)  # in order

_STATE = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
    FROM pragma_application_id, pragma_user_version
"""


def check(db: sqlite3.Connection, path: str, newest: int = len(MIGRATIONS)) -> int:
    """Return a file's version, 0 for an empty one.

    Raises `LedgerUnavailableError` for another program's database and for a newer version.
    """
    application, version, tables = db.execute(_STATE).fetchone()
    if application != APPLICATION and (application or version or tables):
        raise LedgerUnavailableError(f"{path!r} is another program's database, not a ledger")
    if version > newest:
        raise LedgerUnavailableError(
            f"the ledger {path!r} has schema version {version}, and this program knows {newest}: "
            "it was opened by a newer microbudget"
        )
    return int(version)


def migrate(db: sqlite3.Connection, path: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Bring a file to the newest version in one transaction; several processes may try at once.

    Raises as `check` does, and `sqlite3.Error`.
    """
    newest = len(migrations)
    if check(db, path, newest) == newest:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for migration in migrations[check(db, path, newest) :]:
            for statement in migration.split(";"):
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {newest}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
