"""Make the ledger's schema on the server, or bring it up to date."""

from importlib.resources import files
from typing import Any
from uuid import uuid4

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.provider import maybe_await
from budget_cpython.ledger.postgres.place import Place

MIGRATIONS = (
    "001_tables",
    "002_journal",
    "003_places",
)  # in order; the schema's version is how many were done
FUNCTIONS = (
    "common",
    "windows",
    "reserve",
    "charge",
    "settlement",
    "renew",
    "accounts",
    "together",
    "journal",
)
PATIENCE = 60.0  # seconds for others that make the same schema


async def install(connection: Any, schema: str, migrate: bool, place: Place) -> None:
    """Bring the schema to the version of this release, and see that it has this place.

    Any number of servers may start at once: one makes it, the others wait for that one.

    Raises `LedgerUnavailableError` for a schema of a later release or with another place, and if
    there is something to do and `migrate` is false.
    """
    if await _version(connection, schema) != len(MIGRATIONS):
        await _migrate(connection, schema, migrate, place)
    row = await execute(
        connection,
        f'SELECT ledger, place, places FROM "{schema}".schema_version',  # noqa: S608
    )
    place.check(schema, *row)


async def _migrate(connection: Any, schema: str, migrate: bool, place: Place) -> None:
    if not migrate:
        raise LedgerUnavailableError(
            f"schema {schema} is not there, or not up to date, and migrate=False: start once with "
            "a role that may change it"
        )
    connection.answer_timeout += PATIENCE
    await execute(connection, "BEGIN ISOLATION LEVEL READ COMMITTED")
    await execute(connection, f"SET LOCAL statement_timeout = '{PATIENCE}s'")
    await execute(
        connection,
        "SELECT pg_advisory_xact_lock(hashtext('microbudget schema'), hashtext(%s))",
        schema,
    )
    done = await _version(connection, schema)
    own = (uuid4(), 1, 1)  # of one that was made before there were several
    if done is None:
        own = (place.new_id(), place.number, place.of)
        await execute(connection, _read("000_schema", schema))
        done = 0
    if done < len(MIGRATIONS):
        for name in MIGRATIONS[done:] + FUNCTIONS:
            await execute(connection, _read(name, schema))
        await execute(
            connection,
            f'UPDATE "{schema}".schema_version SET version = %s, ledger = coalesce(ledger, %s), '  # noqa: S608
            "place = coalesce(place, %s), places = coalesce(places, %s)",
            len(MIGRATIONS),
            *own,
        )
    await execute(connection, "COMMIT")


async def _version(connection: Any, schema: str) -> int | None:
    """Return the schema's version, `None` if there is no such schema.

    It is looked for in the catalogue: names are resolved as they were before the lock.
    """
    table = await execute(
        connection,
        "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
        "WHERE relname = 'schema_version' AND nspname = %s",
        schema,
    )
    if table is None:
        return None
    (version,) = await execute(connection, f'SELECT version FROM "{schema}".schema_version')  # noqa: S608
    if version > len(MIGRATIONS):
        raise LedgerUnavailableError(
            f"schema {schema} is of version {version}, later than {len(MIGRATIONS)}, which this "
            "release of microbudget works with: upgrade it"
        )
    return int(version)


async def execute(connection: Any, text: str, *parameters: Any) -> Any:
    """Execute statements, and return the first row, if they give any."""
    cursor = await maybe_await(connection.execute(text.encode(), parameters or None))
    return await maybe_await(cursor.fetchone()) if cursor.description else None


def _read(name: str, schema: str) -> str:
    text = files(__package__).joinpath("sql", name + ".sql").read_text("utf-8")
    return text.replace("microbudget.", f'"{schema}".').replace("'microbudget'", f"'{schema}'")
