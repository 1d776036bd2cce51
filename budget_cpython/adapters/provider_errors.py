"""What a failed call of an SDK costs, by the error that the SDK raised."""

from collections.abc import Iterator
from typing import Any

_DEPTH = 16  # errors of a chain that are looked at
_NEVER_SENT = {"ConnectError", "ConnectTimeout", "ConnectionRefusedError", "ClientConnectorError"}
_GUESSES = "litellm"  # its errors have a status also where the provider gave none
_BROKEN_OFF = {"TransportError", "ClientConnectionError", "ClientPayloadError", "OSError"}


class UnbilledError(Exception):
    """A call was refused by its provider, or never reached it: it cost nothing."""

    sent = False


def as_settled(error: BaseException) -> BaseException:
    """Return the error to settle a call with: an `UnbilledError` where it cost nothing.

    That is where no connection was made, and where the provider answered with a status of 300 or
    more. A connection that broke off, or timed out, may have cost something, whatever status the
    SDK gives its error.
    """
    chain = list(_chain(error))
    kinds = {kind.__name__ for one in chain for kind in type(one).__mro__}
    refused = not kinds & _BROKEN_OFF and any(_status(one) >= 300 for one in chain)
    return UnbilledError(str(error)) if refused or kinds & _NEVER_SENT else error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(_DEPTH):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _status(error: Any) -> int:
    if type(error).__module__.partition(".")[0] == _GUESSES:
        return 0
    for found in (error, getattr(error, "response", None)):
        for name in ("status_code", "code"):
            status = getattr(found, name, None)
            if type(status) is int:
                return status
    return 0
