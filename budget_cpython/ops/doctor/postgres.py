"""The checks of a ledger in Postgres."""

from collections.abc import Callable
from typing import Any

import psycopg

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.finding import Finding, fails, ok, warning
from budget_cpython.ledger.postgres.conninfo import complete
from budget_cpython.ops.doctor.engine import Check, answers, compare_clocks


def postgres_checks(url: str, now: int, timeout_s: float) -> list[Check]:
    """Return the checks of the server of a URL."""

    def ask(query: str) -> Any:
        conninfo = complete(url, timeout_s, True)
        try:
            with psycopg.connect(str(conninfo), autocommit=True) as connection:
                return connection.execute(query).fetchone()[0]  # type: ignore[index]
        except psycopg.Error as error:
            raise LedgerUnavailableError(f"the server: {error}", error) from error

    fix = "start the server, or correct --ledger and the rights of its user"
    return [
        (
            "engine",
            answers(
                url, {"timeout": timeout_s}, lambda: f"Postgres {ask('SHOW server_version')}", fix
            ),
        ),
        ("clock", lambda: _check_clock(ask, now)),
        ("durability", lambda: _check_durability(ask)),
    ]


def _check_clock(ask: Callable[[str], Any], now: int) -> Finding:
    theirs = float(ask("SELECT extract(epoch FROM clock_timestamp())"))
    return compare_clocks(theirs, now, "the server's")


def _check_durability(ask: Callable[[str], Any]) -> Finding:
    for name in ("fsync", "full_page_writes"):
        if ask(f"SHOW {name}") != "on":
            found = f"{name} is off: a crash of the machine may lose or damage the counts"
            return fails(found, f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()")
    commit = ask("SHOW synchronous_commit")
    if commit == "off":
        found = "synchronous_commit is off: a crash loses what was counted last"
        fix = "ALTER DATABASE … SET synchronous_commit = on, or the same for the user"
        return warning(found, fix)
    return ok(f"fsync and full_page_writes are on, synchronous_commit is {commit}")
