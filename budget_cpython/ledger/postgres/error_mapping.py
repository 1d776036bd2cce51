"""Map the errors of psycopg to a ledger's, and say whether anything can have been changed."""

import psycopg

from budget_core.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError

RETRY = ("40001", "40P01")  # serialization failures and deadlocks: rolled back, fine a second time
FULL = ("53100", "53200")
READ_ONLY = "25006"
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


def ledger_error(error: psycopg.Error, sent: bool) -> LedgerError:
    """Return the ledger's error for one of psycopg's; `sent`: the operation had been sent.

    Where the server answers with an error, the operation is undone. Where the connection is lost,
    it may have been applied.
    """
    state = error.sqlstate or ""
    text = error.diag.message_primary or str(error).strip() or type(error).__name__
    text = f"the ledger's Postgres server: {text}"
    if state in HINTS:
        text += f" ({HINTS[state]})"
    lost = is_lost(error)
    if state in FULL and not lost:
        return LedgerFullError(text)
    return LedgerUnavailableError(text, error, None if sent and lost else False)


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection ended with the error, or waits for an answer still."""
    return not error.sqlstate or error.diag.severity_nonlocalized in ("FATAL", "PANIC")
