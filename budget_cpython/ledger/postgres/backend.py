"""Do a ledger's operations on a Postgres server, one statement each."""

import secrets
from collections.abc import Sequence
from typing import Any

import psycopg

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.provider import maybe_await
from budget_cpython.ledger.postgres.connections import Connections, Driver
from budget_cpython.ledger.postgres.error_mapping import READ_ONLY, RETRY, is_lost, ledger_error
from budget_cpython.ledger.postgres.schema import install
from budget_cpython.ledger.postgres.statements import BATCH, Arguments, parameters, statement

LEAVING = ("reserve", "renew", "charge", "note", "add_usage")  # operations that leave a row
FORGET_EVERY = 100  # of them; up to `BATCH` old rows go with each of these


class PostgresBackend:
    """A backend over psycopg, as `remote.Backend` says; `options` are those of `Connections`."""

    def __init__(
        self, driver: Driver, conninfo: Any, schema: str, migrate: bool, **options: Any
    ) -> None:
        self._schema = schema
        self._migrate = migrate
        self._connections = Connections(driver, conninfo, self._prepare, **options)
        self._installed = False
        self._rows = secrets.randbelow(FORGET_EVERY)  # so that short-lived ledgers forget too

    async def call(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        """Do one operation; repeat it, at the first time of the server's, as long as it asks."""
        arguments = {**arguments, "forget": 0}
        if operation in LEAVING:
            self._rows += 1
            if self._rows % FORGET_EVERY == 0:
                arguments["forget"] = BATCH
        expired = 0
        while True:
            reply = await self._execute_twice(operation, arguments)
            if operation == "expire":
                expired += reply[1]
                reply[1] = expired
            if reply[0] not in ("again", "more"):
                return reply
            arguments["now"] = reply[-1]

    async def close(self) -> None:
        """Close all connections."""
        await self._connections.close()

    async def _prepare(self, connection: Any) -> None:
        """Check a first connection, and make the schema if there is none."""
        cursor = await maybe_await(connection.execute("SHOW transaction_isolation"))
        (level,) = await maybe_await(cursor.fetchone())
        if level != "read committed":  # each statement must see what was committed before it
            raise LedgerUnavailableError(
                f"the ledger's connections must be READ COMMITTED, not {level.upper()}: set "
                "default_transaction_isolation"
            )
        if not self._installed:
            await install(connection, self._schema, self._migrate)
            self._installed = True

    async def _execute_twice(self, operation: str, arguments: Arguments) -> list[Any]:
        """Execute a statement, once more if the server gave it up for the sake of others."""
        query = statement(operation, self._schema), parameters(operation, arguments)
        try:
            return await self._execute(*query)
        except LedgerUnavailableError as error:
            if getattr(error.cause, "sqlstate", None) not in RETRY:
                raise
        return await self._execute(*query)

    async def _execute(self, text: bytes, values: list[str | None]) -> list[Any]:
        pool, connection = await self._connections.take()
        try:
            cursor = await maybe_await(connection.execute(text, values))
            (reply,) = await maybe_await(cursor.fetchone())
        except psycopg.Error as error:
            if is_lost(error) or error.sqlstate == READ_ONLY:
                await self._connections.drop(pool)
            raise ledger_error(error, sent=True) from None
        finally:
            await maybe_await(pool.putconn(connection))
        return list(reply)
