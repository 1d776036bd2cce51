"""One `send` of an HTTP client: a call of a model is admitted before it and settled after it."""

from collections.abc import Callable, Sequence
from typing import Any

from budget_core.errors import BudgetError
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.event_loop import aside
from budget_cpython.adapters.http.attempt import HttpAttempt, format_of, package_of
from budget_cpython.adapters.http.streams import BrokenStreamError
from budget_cpython.adapters.provider_errors import UnbilledError
from budget_cpython.adapters.settling import settled, settled_blocking

Send = Callable[..., Any]


def send_blocking(
    client: Any,
    send: Send,
    accounts: Sequence[BudgetAccount],
    request: Any,
    *,
    stream: bool = False,
    **options: Any,
) -> Any:
    """Send a request by a client's own `send`; a model's call draws on accounts."""
    wire = format_of(request)
    if wire is None or client.is_closed:
        return send(request, stream=stream, **options)
    request.read()
    attempt = HttpAttempt(package_of(client), wire, request, accounts, client.timeout)
    try:
        attempt.parse()
        call = attempt.open()
    except BudgetError as error:
        return attempt.refused(error)
    try:
        sent = attempt.sent(call.begin_blocking(), stream)
    except BaseException as error:
        call.fail_blocking(UnbilledError(str(error)))
        if isinstance(error, BudgetError):
            return attempt.refused(error)
        raise
    try:
        with settled_blocking(call):
            response = send(sent, stream=True, **options)
            if response.status_code >= 300:
                call.fail_blocking(attempt.unbilled(response))
            elif attempt.count_read(response, stream):
                if attempt.is_complete:
                    call.end_blocking(attempt.answer())
                call.fail_blocking(BrokenStreamError())  # unless it has ended
            else:
                attempt.begin_reading(response, stream)
            if not stream:
                _read(response)
                call.end_blocking(attempt.answer(response))
    except Exception as error:
        late = attempt.late(error)
        if late is None:
            raise
        return attempt.refused(late)
    return response


async def send(
    client: Any,
    send: Send,
    accounts: Sequence[BudgetAccount],
    request: Any,
    *,
    stream: bool = False,
    **options: Any,
) -> Any:
    """Send a request as `send_blocking` does, by an asyncio client's own `send`."""
    wire = format_of(request)
    if wire is None or client.is_closed:
        return await send(request, stream=stream, **options)
    await request.aread()
    attempt = HttpAttempt(package_of(client), wire, request, accounts, client.timeout)
    do = aside(len(request.content))
    try:
        await do(attempt.parse)
        call = attempt.open()
    except BudgetError as error:
        return attempt.refused(error)
    try:
        sent = await do(attempt.sent, await call.begin(), stream)
    except BaseException as error:
        await call.fail(UnbilledError(str(error)))
        if isinstance(error, BudgetError):
            return attempt.refused(error)
        raise
    try:
        async with settled(call):
            response = await send(sent, stream=True, **options)
            if response.status_code >= 300:
                await call.fail(attempt.unbilled(response))
            elif attempt.count_read(response, stream):
                if attempt.is_complete:
                    await call.end(attempt.answer())
                await call.fail(BrokenStreamError())  # unless it has ended
            else:
                attempt.begin_reading(response, stream)
            if not stream:
                await _aread(response)
                await call.end(attempt.answer(response))
    except Exception as error:
        late = attempt.late(error)
        if late is None:
            raise
        return attempt.refused(late)
    return response


def _read(response: Any) -> None:
    try:
        response.read()
    except BaseException:
        response.close()
        raise


async def _aread(response: Any) -> None:
    try:
        await response.aread()
    except BaseException:
        await response.aclose()
        raise
