"""A budget round a client of httpx or httpx2: each attempt to a known path draws on it."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

from budget_core.errors import BudgetError
from budget_cpython.adapters.http_exchange import Exchange, format_of, package_of
from budget_cpython.adapters.layer import Layer
from budget_cpython.adapters.provider_errors import UnbilledError
from budget_cpython.adapters.settling import settled, settled_blocking
from budget_cpython.adapters.standing_in import named_like

T = TypeVar("T")


def budgeted_http_client(client: T, layers: Sequence[Layer] = ()) -> T:
    """Return a client of the same type, on the same connections, whose calls draw on layers.

    A request whose path is that of a model's API is admitted, changed, sent, counted and settled;
    all others pass through. Those of `wire.find_format` are known. A refused request is not sent:
    its response has the status 402 and the form of the vendor's errors, and the error of the budget
    is its extension `microbudget`. A request's own extension `microbudget`, a sequence of layers,
    takes the place of the client's.

    A current deadline (`Deadline.current`) lowers the timeouts, and refuses once it has passed.

    Raises `ValueError` if `client` is not one of httpx or httpx2.
    """
    base: Any = getattr(type(client), "microbudget_base", type(client))
    package = package_of(client)
    is_async = isinstance(client, package.AsyncClient)
    kind = (_async_kind if is_async else _blocking_kind)(base)
    new: Any = kind.__new__(kind)
    new.__dict__.update(vars(client))
    new.microbudget_layers = (*getattr(client, "microbudget_layers", ()), *layers)
    new.microbudget_original = client  # whose end closes the connections
    found: T = new
    return found


budgeted = budgeted_http_client


def layers_of(client: Any) -> tuple[Layer, ...] | None:
    """Return the layers of a budgeted client, `None` for any other."""
    found: tuple[Layer, ...] | None = getattr(client, "microbudget_layers", None)
    return found


@lru_cache
def _blocking_kind(base: Any) -> Any:
    class Budgeted(base):  # type: ignore[misc]
        microbudget_base = base

        def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            wire = format_of(request)
            if wire is None or self.is_closed:
                return super().send(request, stream=stream, **options)
            request.read()
            layers, package = self.microbudget_layers, package_of(self)
            exchange = Exchange(package, wire, request, layers, self.timeout)
            try:
                call = exchange.open()
            except BudgetError as error:
                return exchange.refused(error)
            try:
                sent = exchange.sent(call.begin_blocking(), stream)
            except BudgetError as error:
                call.fail_blocking(UnbilledError(str(error)))
                return exchange.refused(error)
            with settled_blocking(call):
                response = super().send(sent, stream=True, **options)
                if response.status_code < 300:
                    exchange.begin_reading(response, stream)
                else:
                    call.fail_blocking(exchange.unbilled(response))
                if not stream:
                    _read(response)
                    call.end_blocking(exchange.answer(response))
            return response

        def __del__(self) -> None:
            """Leave the connections to the client that they belong to."""

    return named_like(base, Budgeted)


@lru_cache
def _async_kind(base: Any) -> Any:
    class Budgeted(base):  # type: ignore[misc]
        microbudget_base = base

        async def send(self, request: Any, *, stream: bool = False, **options: Any) -> Any:
            wire = format_of(request)
            if wire is None or self.is_closed:
                return await super().send(request, stream=stream, **options)
            await request.aread()
            layers, package = self.microbudget_layers, package_of(self)
            exchange = Exchange(package, wire, request, layers, self.timeout)
            try:
                call = exchange.open()
            except BudgetError as error:
                return exchange.refused(error)
            try:
                sent = exchange.sent(await call.begin(), stream)
            except BudgetError as error:
                await call.fail(UnbilledError(str(error)))
                return exchange.refused(error)
            async with settled(call):
                response = await super().send(sent, stream=True, **options)
                if response.status_code < 300:
                    exchange.begin_reading(response, stream)
                else:
                    await call.fail(exchange.unbilled(response))
                if not stream:
                    await _aread(response)
                    await call.end(exchange.answer(response))
            return response

        def __del__(self) -> None:
            """Leave the connections to the client that they belong to."""

    return named_like(base, Budgeted)


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
