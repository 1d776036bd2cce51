"""Ask the server for one operation at a time, and tell what its trouble means."""

import json
import secrets
from collections.abc import Sequence
from typing import Any

import psycopg

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.postgres.error_mapping import AGAIN, ELSEWHERE, lost, too_slow, trouble
from budget_cpython.ledger.postgres.exchange import (
    Talk,
    execute,
    execute_prepared,
    prepare,
    script,
)
from budget_cpython.ledger.postgres.operations import BATCH, Arguments, Operation, operations
from budget_cpython.ledger.postgres.pool import Link, Pool
from budget_cpython.ledger.postgres.schema import PATIENCE_MS, install

GRACE = 1.0  # seconds for the server's own timeout to come first
FORGET_EVERY = 100  # operations that leave a row; up to `BATCH` old rows go with each of these


class Engine:
    """A ledger's connection to Postgres."""

    def __init__(self, pool: Pool, schema: str, prepared: bool, migrate: bool) -> None:
        self._pool = pool
        self._schema = schema
        self._prepared = prepared
        self._migrate = migrate
        self._operations = operations(schema)
        self._installed = False
        self._taken = secrets.randbelow(FORGET_EVERY)  # so that short-lived ones forget too

    async def call(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        """Do one operation; again at the server's time of the first where that is asked for."""
        asked = self._operations[operation]
        arguments = {**arguments, "forget": 0}
        if operation in ("reserve", "charge"):
            self._taken += 1
            if self._taken % FORGET_EVERY == 0:
                arguments["forget"] = BATCH
        expired = 0
        while True:
            reply = await self._once_more(asked, arguments)
            if operation == "expire":
                expired += reply[1]
                reply[1] = expired
            if reply[0] not in ("again", "more"):
                return reply
            arguments["now"] = reply[-1]

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def _once_more(self, operation: Operation, arguments: Arguments) -> list[Any]:
        parameters = operation.write(arguments)
        try:
            return await self._once(operation, parameters)
        except LedgerUnavailableError as error:
            if getattr(error.cause, "sqlstate", None) not in AGAIN:
                raise
        return await self._once(operation, parameters)

    async def _once(self, operation: Operation, parameters: list[bytes | None]) -> list[Any]:
        link = await self._take(operation)
        seconds = self._pool.timeout + GRACE
        try:
            value = await self._pool.run(link, self._talk(link, operation, parameters), seconds)
        except psycopg.Error as error:
            if lost(error) or error.sqlstate in ELSEWHERE:
                self._pool.drop(link)
            else:
                self._pool.give(link)
            raise trouble(error, True) from None
        except TimeoutError:
            self._pool.drop(link)
            raise too_slow(seconds, True) from None
        except BaseException:
            self._pool.drop(link)
            raise
        self._pool.give(link)
        reply: list[Any] = json.loads((value or b"[]").decode())
        return reply

    async def _take(self, operation: Operation) -> Link:
        """Return a connection that is ready to ask; one that has waited may have ended since."""
        while True:
            link = await self._pool.take()
            waited = link.checked
            try:
                await self._make_ready(link, operation)
                return link
            except psycopg.Error as error:
                self._pool.drop(link)
                if not (waited and lost(error)):
                    raise trouble(error, False) from None
            except TimeoutError:
                self._pool.drop(link)
                raise too_slow(self._pool.timeout + GRACE, False) from None
            except BaseException:
                self._pool.drop(link)
                raise

    async def _make_ready(self, link: Link, operation: Operation) -> None:
        seconds = self._pool.timeout + GRACE
        if not link.checked:
            await self._pool.run(link, _check(link), seconds)
            link.checked = True
        if not self._installed:
            changes = install(link.pg, self._schema, self._migrate)
            await self._pool.run(link, changes, seconds + PATIENCE_MS / 1000)
            self._installed = True
        if self._prepared and operation.name not in link.prepared:
            name = prepare(link.pg, operation.name, operation.statement)
            await self._pool.run(link, name, seconds)
            link.prepared.add(operation.name)

    def _talk(
        self, link: Link, operation: Operation, parameters: list[bytes | None]
    ) -> Talk[bytes | None]:
        if self._prepared:
            return execute_prepared(link.pg, operation.name, parameters)
        return execute(link.pg, operation.statement, parameters)


def _check(link: Link) -> Talk[None]:
    """See to it that each statement sees what was committed before it: the functions need that."""
    level = yield from script(link.pg, b"SHOW transaction_isolation")
    if level != b"read committed":
        raise LedgerUnavailableError(
            f"the ledger's connections must be READ COMMITTED, not {(level or b'').decode()}: set "
            "default_transaction_isolation"
        )
