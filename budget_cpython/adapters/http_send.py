"""One `send` of an HTTP client: a call of a model is admitted before it and settled after it."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from budget_core.errors import BudgetError
from budget_cpython.adapters.http_exchange import Exchange, format_of, package_of
from budget_cpython.adapters.http_streams import BrokenStreamError
from budget_cpython.adapters.layer import Layer
from budget_cpython.adapters.provider_errors import UnbilledError
from budget_cpython.adapters.settling import settled, settled_blocking
from budget_cpython.adapters.wire import LARGE

Layers = Sequence[Layer]
Send = Callable[..., Any]
T = TypeVar("T")


def send_blocking(
    client: Any, send: Send, layers: Layers, request: Any, *, stream: bool = False, **options: Any
) -> Any:
    """Send a request by a client's own `send`; a model's call draws on layers."""
    wire = format_of(request)
    if wire is None or client.is_closed:
        return send(request, stream=stream, **options)
    request.read()
    exchange = Exchange(package_of(client), wire, request, layers, client.timeout)
    try:
        exchange.parse()
        call = exchange.open()
    except BudgetError as error:
        return exchange.refused(error)
    try:
        sent = exchange.sent(call.begin_blocking(), stream)
    except BaseException as error:
        call.fail_blocking(UnbilledError(str(error)))
        if isinstance(error, BudgetError):
            return exchange.refused(error)
        raise
    try:
        with settled_blocking(call):
            response = send(sent, stream=True, **options)
            if response.status_code >= 300:
                call.fail_blocking(exchange.unbilled(response))
            elif exchange.count_read(response, stream):
                if exchange.is_complete:
                    call.end_blocking(exchange.answer())
                call.fail_blocking(BrokenStreamError())  # unless it has ended
            else:
                exchange.begin_reading(response, stream)
            if not stream:
                _read(response)
                call.end_blocking(exchange.answer(response))
    except Exception as error:
        late = exchange.late(error)
        if late is None:
            raise
        return exchange.refused(late)
    return response


async def send(
    client: Any, send: Send, layers: Layers, request: Any, *, stream: bool = False, **options: Any
) -> Any:
    """Send a request as `send_blocking` does, by an asyncio client's own `send`."""
    wire = format_of(request)
    if wire is None or client.is_closed:
        return await send(request, stream=stream, **options)
    await request.aread()
    exchange = Exchange(package_of(client), wire, request, layers, client.timeout)
    aside = _aside(len(request.content))
    try:
        await aside(exchange.parse)
        call = exchange.open()
    except BudgetError as error:
        return exchange.refused(error)
    try:
        sent = await aside(exchange.sent, await call.begin(), stream)
    except BaseException as error:
        await call.fail(UnbilledError(str(error)))
        if isinstance(error, BudgetError):
            return exchange.refused(error)
        raise
    try:
        async with settled(call):
            response = await send(sent, stream=True, **options)
            if response.status_code >= 300:
                await call.fail(exchange.unbilled(response))
            elif exchange.count_read(response, stream):
                if exchange.is_complete:
                    await call.end(exchange.answer())
                await call.fail(BrokenStreamError())  # unless it has ended
            else:
                exchange.begin_reading(response, stream)
            if not stream:
                await _aread(response)
                await call.end(exchange.answer(response))
    except Exception as error:
        late = exchange.late(error)
        if late is None:
            raise
        return exchange.refused(late)
    return response


def _aside(size: int) -> Callable[..., Any]:
    """Return a caller of functions on a body of that size: for a large one it uses a thread."""
    if size > LARGE:
        with suppress(RuntimeError):  # another library's event loop
            asyncio.get_running_loop()
            return asyncio.to_thread
    return _at_once


async def _at_once(function: Callable[..., T], *arguments: Any) -> T:
    return function(*arguments)


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
