"""The checks of a ledger in Postgres."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.finding import Finding, Result, fails, ok, warning
from budget_cpython.ledger.opening import several_databases
from budget_cpython.ledger.postgres.conninfo import complete
from budget_cpython.ops.doctor.engine import Check, answers, compare_clocks


def postgres_checks(url: str, now: int, options: dict[str, Any], timeout_s: float) -> list[Check]:
    """Return the checks of the server of a URL, or of those of several databases."""
    each = [_asker(one, timeout_s) for one in several_databases(url) or [url]]

    def version() -> str:
        versions = " and ".join(sorted({f"Postgres {ask('SHOW server_version')}" for ask in each}))
        return versions if len(each) == 1 else f"{versions}, with {len(each)} databases,"

    def of_each(check: Callable[[Callable[[str], Any]], Finding]) -> Finding:
        for number, ask in enumerate(each, 1):
            finding = check(ask)
            if finding.result is not Result.OK and len(each) > 1:
                text = f"database {number} of {len(each)}: {finding.found}"
                return replace(finding, found=text)
        return finding

    fix = "start the server, or correct --ledger and the rights of its user"
    return [
        ("engine", answers(url, {"timeout": timeout_s}, version, fix)),
        ("clock", lambda: of_each(lambda ask: _check_clock(ask, now))),
        ("durability", lambda: of_each(_check_durability)),
    ]


def _asker(url: str, timeout_s: float) -> Callable[[str], Any]:
    def ask(query: str) -> Any:
        conninfo = complete(url, timeout_s, True)
        try:
            with psycopg.connect(str(conninfo), autocommit=True) as connection:
                return connection.execute(query).fetchone()[0]  # type: ignore[index]
        except psycopg.Error as error:
            raise LedgerUnavailableError(f"the server: {error}", error) from error

    return ask


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
