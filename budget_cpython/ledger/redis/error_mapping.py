"""Map the errors of the `redis` library to a ledger's."""

from traceback import walk_tb

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    MaxConnectionsError,
    RedisClusterException,
    RedisError,
    ResponseError,
)

from budget_core.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError

ERRORS = (RedisError, RedisClusterException, OSError)  # what clients raise
_NOT_RUN = (AuthenticationError, AuthorizationError, BusyLoadingError, MaxConnectionsError)
_FULL = ("used memory > 'maxmemory'", "No space left on device")
_FOREIGN = ("wrong kind of value", "issing bytes in input", "Bad data format", "not an integer")


def ledger_error(error: Exception, prefix: str, retries: bool) -> LedgerError:
    """Return the ledger's error for one of the library's.

    `retries` is whether the client sends a command again by itself: then an earlier try may have
    been applied, whatever the error of the last one.
    """
    text = str(error) or type(error).__name__
    refused = isinstance(error, ResponseError)
    unsent = isinstance(error, _NOT_RUN) or _is_connecting(error)
    if any(words in text for words in _FULL) and refused:
        return LedgerFullError(f"Redis has no room: {text}")
    if any(words in text for words in _FOREIGN) and refused:
        text = f"keys that begin with {prefix!r} are not all the ledger's own: {text}"
    event = "refused" if refused else "cannot be reached" if unsent else "did not answer"
    applied = False if (refused or unsent) and not retries else None
    return LedgerUnavailableError(f"Redis {event}: {text}", error, applied)


def _is_connecting(error: Exception) -> bool:
    """Return whether the library raised it while it connected: a server may close at once."""
    frames = walk_tb(error.__traceback__)
    return any(frame.f_code.co_name.startswith("connect") for frame, _ in frames)


def is_read_only(error: Exception) -> bool:
    """Return whether the server is a replica, as a former primary is after a failover."""
    return "read only replica" in str(error)


def is_forbidden(error: Exception) -> bool:
    """Return whether the user may not send the command, or the server does not have it."""
    return "permission" in str(error) or "unknown command" in str(error)
