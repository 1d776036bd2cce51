"""Which errors of SDKs and HTTP clients say that a call cost nothing."""

import httpx
import httpx2
import pytest
import requests

from budget_cpython.adapters.provider_errors import UnbilledError, as_settled

UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")
MAYBE_SENT = (
    "CloseError",
    "DecodingError",
    "LocalProtocolError",
    "ReadError",
    "ReadTimeout",
    "RemoteProtocolError",
    "WriteError",
    "WriteTimeout",
)


class ClientConnectorError(OSError):
    """An error by its name in aiohttp, which is not a dependency."""


class SdkError(Exception):
    """An SDK's error round one of its HTTP client."""

    status_code = 500


def wrapped(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def retried(error: BaseException, before: BaseException) -> BaseException:
    """Return the error of an attempt that was made while that of another was handled."""
    error.__context__ = before
    return error


def costs_nothing(error: BaseException) -> bool:
    return isinstance(as_settled(error), UnbilledError)


@pytest.mark.parametrize("package", [httpx, httpx2])
@pytest.mark.parametrize("name", UNSENT)
def test_an_error_before_there_is_a_connection_costs_nothing(package: object, name: str) -> None:
    error = getattr(package, name)("no connection")
    assert costs_nothing(error)
    assert costs_nothing(wrapped(SdkError(), wrapped(error, OSError("no route"))))


@pytest.mark.parametrize(
    "error",
    [ConnectionRefusedError(), ClientConnectorError(), requests.ConnectTimeout()],
    ids=lambda error: type(error).__name__,
)
def test_a_refused_connection_costs_nothing(error: Exception) -> None:
    assert costs_nothing(error)
    assert costs_nothing(wrapped(SdkError(), error))


@pytest.mark.parametrize("package", [httpx, httpx2])
@pytest.mark.parametrize("name", MAYBE_SENT)
def test_an_error_on_a_connection_may_have_cost_something(package: object, name: str) -> None:
    error = getattr(package, name)("broke off")
    assert as_settled(error) is error
    assert not costs_nothing(wrapped(SdkError(), error))


@pytest.mark.parametrize(
    "error",
    [requests.exceptions.ProxyError(), ConnectionResetError(), TimeoutError(), ValueError()],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_may_come_after_the_request_may_have_cost_something(
    error: Exception,
) -> None:
    assert not costs_nothing(error)


@pytest.mark.parametrize("name", ["ReadTimeout", "DecodingError"])
def test_one_attempt_that_was_sent_is_enough(name: str) -> None:
    def sent() -> BaseException:
        return getattr(httpx, name)("broke off")  # type: ignore[no-any-return]

    unsent = httpx.ConnectError
    assert not costs_nothing(wrapped(SdkError(), retried(unsent("refused"), sent())))
    assert not costs_nothing(wrapped(SdkError(), retried(sent(), unsent("refused"))))


def test_a_status_of_the_provider_costs_nothing() -> None:
    assert costs_nothing(SdkError())
    assert not costs_nothing(wrapped(SdkError(), OSError()))
