"""Say in the ledger's words what a server could not do."""

from redis.exceptions import RedisClusterException, RedisError, ResponseError

from budget_core.ledger.errors import LedgerError, LedgerFullError, LedgerUnavailableError

ERRORS = (RedisError, RedisClusterException, OSError)  # what clients raise
_FULL = ("used memory > 'maxmemory'", "No space left on device")
_FOREIGN = ("wrong kind of value", "issing bytes in input", "Bad data format", "not an integer")


def meant(error: Exception, prefix: str, sure: bool) -> LedgerError:
    """Return the ledger's error for one of the client's.

    `sure` is whether an error that the server answers with is its first answer: a client that
    tries again by itself may have had its command carried out before.
    """
    text = str(error) or type(error).__name__
    if not isinstance(error, ResponseError):
        return LedgerUnavailableError(f"Redis did not answer: {text}", error, None)
    if any(words in text for words in _FULL):
        return LedgerFullError(f"Redis has no room: {text}")
    if any(words in text for words in _FOREIGN):
        text = f"keys that begin with {prefix!r} are not all the ledger's own: {text}"
    return LedgerUnavailableError(f"Redis refused: {text}", error, False if sure else None)


def unreached(error: Exception) -> LedgerUnavailableError:
    """Return the ledger's error where nothing was sent."""
    return LedgerUnavailableError(f"Redis cannot be reached: {error}", error, False)


def is_read_only(error: Exception) -> bool:
    """Say whether a server is a replica, as a former primary is after a failover."""
    return "read only replica" in str(error)


def is_forbidden(error: Exception) -> bool:
    """Say whether the user may not send the command, or the server has none of that name."""
    return "permission" in str(error) or "unknown command" in str(error)
