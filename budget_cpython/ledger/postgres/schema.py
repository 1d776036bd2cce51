"""Make the ledger's schema on the server, or bring it up to date."""

from importlib.resources import files

from psycopg import pq

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.postgres.exchange import Talk, script

MIGRATIONS = ("001_tables",)  # in order; the schema's version is how many were done
FUNCTIONS = ("common", "windows", "reserve", "charge", "settlement", "accounts")
PATIENCE_MS = 60_000


def install(connection: pq.abc.PGconn, schema: str, migrate: bool) -> Talk[None]:
    """See to it that the schema is the one this release speaks to.

    Any number of servers may start at once: one makes it, the others wait for that one.

    Raises `LedgerUnavailableError` for a schema of a later release, and where something is to be
    done and `migrate` is false.
    """
    if (yield from _is_current(connection, schema)):
        return
    if not migrate:
        raise LedgerUnavailableError(
            f"schema {schema} is not there, or not up to date, and migrate=False: start once with "
            "a role that may change it"
        )
    yield from script(connection, _locked(schema))
    done = 0
    if (yield from _exists(connection, schema)):
        done = yield from _version(connection, schema)
    if done < len(MIGRATIONS):
        yield from script(connection, _changes(connection, schema, done))
    yield from script(connection, b"COMMIT")


def _is_current(connection: pq.abc.PGconn, schema: str) -> Talk[bool]:
    if not (yield from _exists(connection, schema)):
        return False
    version = yield from _version(connection, schema)
    if version > len(MIGRATIONS):
        raise LedgerUnavailableError(
            f"schema {schema} is of version {version}, later than {len(MIGRATIONS)}, which this "
            "release of microbudget speaks to: upgrade it"
        )
    return version == len(MIGRATIONS)


def _exists(connection: pq.abc.PGconn, schema: str) -> Talk[bool]:
    """Look for it in the catalogue itself: names are looked up as they were before the lock."""
    statement = (
        "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "  # noqa: S608
        f"WHERE relname = 'schema_version' AND nspname = '{schema}'"
    )
    return (yield from script(connection, statement.encode())) is not None


def _version(connection: pq.abc.PGconn, schema: str) -> Talk[int]:
    statement = f'SELECT version FROM "{schema}".schema_version'  # noqa: S608 - a checked name
    return int((yield from script(connection, statement.encode())) or b"0")


def _locked(schema: str) -> bytes:
    return (
        f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = {PATIENCE_MS}; "
        f"SELECT pg_advisory_xact_lock(hashtext('microbudget schema'), hashtext('{schema}'))"
    ).encode()


def _changes(connection: pq.abc.PGconn, schema: str, done: int) -> bytes:
    parts = [_read(name, schema) for name in MIGRATIONS[done:] + FUNCTIONS]
    if not done:
        parts.insert(0, _FIRST.format(schema=schema))
    parts.append(f'UPDATE "{schema}".schema_version SET version = {len(MIGRATIONS)}')  # noqa: S608
    return ";\n".join(parts).encode()


_FIRST = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = '{schema}') THEN
        CREATE SCHEMA "{schema}";
    END IF;
END $$;
CREATE TABLE "{schema}".schema_version (version integer NOT NULL);
INSERT INTO "{schema}".schema_version VALUES (0)
"""


def _read(name: str, schema: str) -> str:
    text = files(__package__).joinpath("sql", name + ".sql").read_text("utf-8")
    return text.replace("microbudget.", f'"{schema}".')
