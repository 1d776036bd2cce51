"""Say what went wrong with the server, and whether anything can have been changed."""

import psycopg

from budget_core.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError

AGAIN = ("40001", "40P01")  # serialization failures and deadlocks: rolled back, fine a second time
FULL = ("53100", "53200")
ELSEWHERE = ("25006",)  # what another host of the same conninfo may not have
HINTS = {
    "25006": "it is read-only: name the primary's host in conninfo, or all hosts",
    "26000": "prepared statements are lost on the way: pass behind_pooler=True",
    "3F000": "the ledger's schema is gone",
    "40001": "too many changes at once",
    "40P01": "something else locks the ledger's rows",
    "42501": "its role may not: it needs the schema, and to read and write its tables",
    "42883": "the ledger's schema is gone",
    "42P01": "the ledger's schema is gone",
    "53300": "allow it more connections, or this ledger fewer",
    "57014": "it took longer than `timeout`, or was cancelled",
    "57P01": "it is shutting down, or closed the connection",
    "57P03": "it is starting or shutting down",
}


def trouble(error: psycopg.Error, asked: bool) -> LedgerError:
    """Return what a failure comes to; `asked`: the operation had been sent.

    An error that the server lives to tell has undone the operation; a connection that ended may
    have ended after it.
    """
    state = error.sqlstate or ""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    text = f"the ledger's Postgres server: {text}"
    if state in HINTS:
        text += f" ({HINTS[state]})"
    over = lost(error)
    if state in FULL and not over:
        return LedgerFullError(text)
    return LedgerUnavailableError(text, error, None if asked and over else False)


def lost(error: psycopg.Error) -> bool:
    """Return whether the connection ended with it."""
    return not error.sqlstate or error.diag.severity_nonlocalized in ("FATAL", "PANIC")


def too_slow(seconds: float, asked: bool) -> LedgerUnavailableError:
    """Return the error for a server that said nothing for so long."""
    text = f"the ledger's Postgres server did not answer within {seconds:g} s"
    return LedgerUnavailableError(text, TimeoutError(), None if asked else False)
