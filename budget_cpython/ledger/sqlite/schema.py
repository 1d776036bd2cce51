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
    "CREATE TABLE ledger (accounts INTEGER NOT NULL)",
    "INSERT INTO ledger VALUES (0)",
    # What one limit counted in one window. Holds name counts, so no id is used a second time.
    """
    CREATE TABLE counts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        account TEXT NOT NULL, axis TEXT NOT NULL, window TEXT NOT NULL, current INTEGER NOT NULL,
        starts INTEGER NOT NULL, ends INTEGER NOT NULL,
        spent INTEGER NOT NULL, held INTEGER NOT NULL, cap INTEGER NOT NULL
    )
    """,
    "CREATE INDEX counts_current ON counts (account, axis, window) WHERE current",
    "CREATE INDEX counts_of_limit ON counts (account, axis, window, starts)",
    # `name` is the root of the path and the key, or an id that begins with '#'; `counts` are ids;
    # `due` is when a live hold expires, and when a settled one is forgotten, 0 if it was settled
    # without a date.
    """
    CREATE TABLE holds (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
        path TEXT NOT NULL, amounts TEXT NOT NULL, counts TEXT NOT NULL,
        state TEXT NOT NULL, expires INTEGER, actual TEXT, due INTEGER NOT NULL
    )
    """,
    "CREATE INDEX holds_expiring ON holds (due) WHERE state = 'held'",
    "CREATE INDEX holds_settled ON holds (due) WHERE state != 'held'",
    """
    CREATE VIEW balances AS
    SELECT account, axis, window, cap, spent, held,
        max(0, cap - spent - held) AS "left", begins_at, resets_at
    FROM (
        SELECT c.account, c.axis, c.window, nullif(c.cap, 9007199254740991) AS cap,
            c.spent + coalesce(sum(e.spent), 0) AS spent, c.held + coalesce(sum(e.held), 0) AS held,
            c.starts / 1000 AS begins_at,
            CASE WHEN c.ends < 1099511627776000 THEN c.ends / 1000 END AS resets_at
        FROM counts c LEFT JOIN counts e
            ON c.window LIKE 'rolling %'
            AND e.account = c.account AND e.axis = c.axis AND e.window = c.window
            AND e.starts < c.starts
            AND e.starts >= c.starts - 1000 * CAST(substr(c.window, 9) AS INTEGER)
        WHERE c.current
        GROUP BY c.id
    )
    """,
    """
    CREATE VIEW holds_live AS
    SELECT path,
        CASE WHEN name LIKE '#%' THEN name ELSE substr(name, instr(name, '/') + 1) END AS id,
        amounts, expires / 1000 AS expires_at
    FROM holds WHERE state = 'held'
    """,
    """
    CREATE VIEW history AS
    SELECT account, axis, window, nullif(cap, 9007199254740991) AS cap, spent, held,
        starts / 1000 AS begins_at,
        CASE WHEN ends < 1099511627776000 THEN ends / 1000 END AS resets_at
    FROM counts WHERE NOT current
    """,
)
MIGRATIONS: Sequence[Migration] = (_FIRST,)


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


def migrate(
    db: sqlite3.Connection, path: str, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Bring a file to the newest version in one transaction; several processes may try at once.

    Raises as `check` does, and `sqlite3.Error`.
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
