"""The cost of a failed call, by the error that its SDK or HTTP client raised."""

from collections.abc import Iterator
from typing import Any

from budget_core.errors import BudgetError

EXTENSION = "microbudget"  # of an answer in the model's place: the budget's error
_DEPTH = 16  # errors of a chain that are looked at
# No connection exists yet, or none beyond the proxy. The ProxyError of requests is absent: with
# urllib3 1 it may follow a request that was sent.
_NEVER_SENT = {
    "ClientConnectorError",
    "ConnectError",
    "ConnectTimeout",
    "ConnectionRefusedError",
    "PoolTimeout",
    "UnsupportedProtocol",
    "httpx.ProxyError",
    "httpx2.ProxyError",
}
_GUESSES = "litellm"  # its errors have a status also where the provider gave none
_BROKEN_OFF = {"TransportError", "DecodingError", "ClientConnectionError", "ClientPayloadError"}


class UnbilledError(Exception):
    """A call was refused by its provider, or never reached it: it cost nothing."""

    sent = False


def as_settled(error: BaseException, before: BaseException | None = None) -> BaseException:
    """Return the error to settle a call with: an `UnbilledError` where it cost nothing.

    That is where no attempt had a connection, and where the provider answered with a status of 300
    or more. A connection that broke off, or timed out, may have cost something, whatever status the
    SDK gives its error. `before` is what its caller was handling when the call began, whose error
    says nothing of it.
    """
    chain = list(chain_of(error, before))
    kinds = [_kinds(one) for one in chain]
    if any(names & _BROKEN_OFF and not names & _NEVER_SENT for names in kinds):
        return error
    is_unsent = any(names & _NEVER_SENT for names in kinds)
    is_refused = any(_status(one) >= 300 for one in chain) and not any(
        "OSError" in names for names in kinds
    )
    return UnbilledError(str(error)) if is_unsent or is_refused else error


def chain_of(error: BaseException | None, before: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, what caused it, and so on, up to an error that was there before."""
    for _ in range(_DEPTH):
        if error is None or error is before:
            return
        yield error
        error = error.__cause__ or error.__context__


def budget_error(error: BaseException, before: BaseException | None) -> BudgetError | None:
    """Return the budget's error behind that of an SDK: in its chain, or in place of an answer.

    `before` is what its caller was handling when the call began, and is not looked at.
    """
    for one in chain_of(error, before):
        response: Any = getattr(one, "response", None)
        found = one if isinstance(one, BudgetError) else None
        found = found or getattr(response, "extensions", {}).get(EXTENSION)
        if found is not None:
            return found
    return None


def _kinds(error: BaseException) -> set[str]:
    """Return the names of an error's classes, alone and after their package's name."""
    kinds = type(error).__mro__
    packages = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds}
    return packages | {kind.__name__ for kind in kinds}


def _status(error: Any) -> int:
    if type(error).__module__.partition(".")[0] == _GUESSES:
        return 0
    for found in (error, getattr(error, "response", None)):
        for name in ("status_code", "code"):
            status = getattr(found, name, None)
            if type(status) is int:
                return status
    return 0
