"""Spread the accounts of one ledger over several databases, all below one root in one of them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from zlib import crc32

from budget_core.ledger.checks import root
from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.postgres.backend import PostgresBackend
from budget_cpython.ledger.postgres.statements import Arguments

JOURNAL = ("note", "events", "add_usage", "usage")  # operations on what the first database keeps


class SpreadBackend:
    """A backend over those of databases, as `remote.Backend` says, in an order that never changes.

    An operation on a path is done by the database of its root. What is asked of all accounts is
    asked of one database after the other, and fails if one of them does.
    """

    is_spread = True

    def __init__(self, backends: Sequence[PostgresBackend]) -> None:
        self._backends = backends

    async def call(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        """Do one operation."""
        if operation in JOURNAL:
            return await self._ask(0, operation, arguments)
        if arguments["path"]:
            number = crc32(root(arguments["path"]).encode()) % len(self._backends)
            return await self._ask(number, operation, arguments)
        if operation == "expire":
            return await self._expire(arguments)
        rows = await self._read(operation, arguments)
        if rows[0] == "roll" or operation != "open_holds":
            return rows
        oldest = sorted(rows[1], key=lambda row: (row[3], row[0], row[1]))
        return "ok", oldest[: arguments["most"]]

    async def close(self) -> None:
        """Close all connections."""
        for backend in self._backends:
            await backend.close()

    async def _read(self, operation: str, arguments: Arguments) -> Sequence[Any]:
        """Return the rows of all databases.

        Those that answered are not asked again with the bounds of windows that another needs: the
        clocks of two servers may be in two windows.
        """
        answered: dict[int, Any] = arguments.setdefault("answered", {})
        for number in range(len(self._backends)):
            if number not in answered:
                reply = await self._ask(number, operation, arguments)
                if reply[0] == "roll":
                    word, now, lacking = reply  # the known ones too: the answer replaces them
                    return word, now, list({*arguments["bounds"], *lacking})
                answered[number] = reply[1]
        return "ok", [row for number in sorted(answered) for row in answered[number]]

    async def _expire(self, arguments: Arguments) -> Sequence[Any]:
        """Expire the holds of each database; raise the first error at the end."""
        count, failures = 0, []
        for number in range(len(self._backends)):
            try:
                count += (await self._ask(number, "expire", arguments))[1]
            except LedgerUnavailableError as error:
                failures.append(error)
        for failure in failures:
            raise failure
        return "ok", count

    async def _ask(self, number: int, operation: str, arguments: Arguments) -> Sequence[Any]:
        backend = self._backends[number]
        try:
            if number and backend.place.ledger.known is None:
                with suppress(LedgerUnavailableError):  # then this one is not new, or says so
                    await self._backends[0].begin()  # which gives the ledger its id
            return await backend.call(operation, arguments)
        except LedgerUnavailableError as error:
            text = f"{backend.place}: {error}"
            raise LedgerUnavailableError(text, error.cause, error.applied) from error
