"""The tables of a ledger's file, and how a file of an earlier version becomes one of this."""

import sqlite3
from collections.abc import Sequence

from budget_core.ledger.errors import LedgerUnavailableError

APPLICATION = 0x6D_62_6C_67  # "mblg", in the header of the file: `file` and others can tell it
Migration = Sequence[str]

_STATE = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
    FROM pragma_application_id, pragma_user_version
"""

_FIRST = (
    """
    CREATE TABLE ledger (
        accounts INTEGER NOT NULL, passed INTEGER NOT NULL, pruned INTEGER NOT NULL
    )
    """,
    "INSERT INTO ledger VALUES (0, 0, 0)",
    """
    CREATE TABLE limits (
        id INTEGER PRIMARY KEY,
        account TEXT NOT NULL, axis TEXT NOT NULL, window TEXT NOT NULL,
        cell INTEGER NOT NULL,
        UNIQUE (account, axis, window)
    )
    """,
    # Holds name cells, so the number of one that is gone never comes back.
    """
    CREATE TABLE cells (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        limit_id INTEGER NOT NULL,
        starts INTEGER NOT NULL, ends INTEGER NOT NULL,
        spent INTEGER NOT NULL, held INTEGER NOT NULL, cap INTEGER NOT NULL,
        turn INTEGER NOT NULL
    )
    """,
    "CREATE INDEX cells_of_limit ON cells (limit_id, starts)",
    """
    CREATE TABLE holds (
        number INTEGER PRIMARY KEY, place TEXT, token TEXT NOT NULL,
        path TEXT NOT NULL, amounts TEXT NOT NULL, cells TEXT NOT NULL,
        state TEXT NOT NULL, expires INTEGER, actual TEXT, due INTEGER NOT NULL,
        old INTEGER NOT NULL
    )
    """,
    "CREATE UNIQUE INDEX holds_keyed ON holds (place) WHERE place IS NOT NULL",
    "CREATE INDEX holds_due ON holds (due) WHERE old AND state = 'held'",
    """
    CREATE VIEW balances AS
    SELECT account, axis, window, cap, spent, held,
        max(0, cap - spent - held) AS "left", begins_at, resets_at
    FROM (
        SELECT l.account, l.axis, l.window, nullif(c.cap, 9007199254740991) AS cap,
            c.spent + coalesce(sum(e.spent), 0) AS spent, c.held + coalesce(sum(e.held), 0) AS held,
            c.starts / 1000 AS begins_at,
            CASE WHEN c.ends < 1099511627776000 THEN c.ends / 1000 END AS resets_at
        FROM limits l JOIN cells c ON c.id = l.cell
        LEFT JOIN cells e ON e.limit_id = l.id AND l.window LIKE 'rolling %'
            AND e.starts < c.starts
            AND e.starts >= c.starts - 1000 * CAST(substr(l.window, 9) AS INTEGER)
        GROUP BY l.id
    )
    """,
    """
    CREATE VIEW holds_live AS
    SELECT path,
        CASE WHEN place IS NULL THEN '#' || token || '-' || number
            ELSE substr(place, instr(place, '/') + 1) END AS id,
        amounts, expires / 1000 AS expires_at
    FROM holds WHERE state = 'held'
    """,
    """
    CREATE VIEW history AS
    SELECT l.account, l.axis, l.window, nullif(c.cap, 9007199254740991) AS cap, c.spent, c.held,
        c.starts / 1000 AS begins_at,
        CASE WHEN c.ends < 1099511627776000 THEN c.ends / 1000 END AS resets_at
    FROM limits l JOIN cells c ON c.limit_id = l.id AND c.id != l.cell
    """,
)
MIGRATIONS: Sequence[Migration] = (_FIRST,)


def check(db: sqlite3.Connection, path: str, newest: int = len(MIGRATIONS)) -> int:
    """Return a file's version, 0 for an empty one; refuse what is not a ledger, or is newer."""
    application, version, tables = db.execute(_STATE).fetchone()
    if application != APPLICATION and (application or version or tables):
        raise LedgerUnavailableError(f"{path!r} is another program's database, not a ledger")
    if version > newest:
        raise LedgerUnavailableError(
            f"the ledger {path!r} has schema version {version}, and this program knows {newest}: "
            "it was opened by a newer microbudget"
        )
    return int(version)


def migrate(
    db: sqlite3.Connection, path: str, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Bring a file to the newest version, in one transaction, whoever else tries at the same time.

    Raises `LedgerUnavailableError` for a file that is not a ledger or is newer, `sqlite3.Error`.
    """
    newest = len(migrations)
    if check(db, path, newest) == newest:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        for migration in migrations[check(db, path, newest) :]:
            for statement in migration:
                db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {newest}")
        db.execute("COMMIT")
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
