"""What the clients of openai and anthropic share: both are generated from one template."""

from collections.abc import Sequence
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, NoReturn, TypeVar

from budget_cpython.adapters.http_client import budgeted_http_client
from budget_cpython.adapters.http_exchange import EXTENSION
from budget_cpython.adapters.layer import Layer

T = TypeVar("T")


def budgeted_copy(client: T, layers: Sequence[Layer], status_error: type[Exception]) -> T:
    """Return a copy of a client whose HTTP attempts draw on layers.

    It is of the very same class, which these SDKs ask for. A refusal raises their `status_error`,
    whose cause is the error of the budget. Copies with other options stay budgeted.
    """
    original: Any = client
    http_client = budgeted_http_client(original._client, layers)
    copied: T = _kept(original.copy(http_client=http_client), layers, status_error)
    return copied


def refuse_client(client: object, why: str) -> NoReturn:
    """Raise the `ValueError` for a client that cannot be budgeted."""
    raise ValueError(f"{type(client).__name__} cannot be budgeted: {why}")


def _kept(client: Any, layers: Sequence[Layer], status_error: type[Exception]) -> Any:
    """Give one client its own `request` and `copy`: a subclass would not be of its class."""
    request, copy = client.request, client.copy
    if iscoroutinefunction(request):

        @wraps(request)
        async def request_async(*given: Any, **options: Any) -> Any:
            try:
                return await request(*given, **options)
            except status_error as error:
                raise_with_cause(error)

        client.request = request_async
    else:

        @wraps(request)
        def request_blocking(*given: Any, **options: Any) -> Any:
            try:
                return request(*given, **options)
            except status_error as error:
                raise_with_cause(error)

        client.request = request_blocking

    @wraps(copy)
    def copy_kept(*given: Any, **options: Any) -> Any:
        if options.get("http_client") is not None:
            options["http_client"] = budgeted_http_client(options["http_client"], layers)
        return _kept(copy(*given, **options), layers, status_error)

    client.copy = client.with_options = copy_kept
    return client


def raise_with_cause(error: Any) -> NoReturn:
    """Raise an SDK's error again, with the error of the budget behind it, if there is one."""
    cause = getattr(error.response, "extensions", {}).get(EXTENSION)
    if cause is None:
        raise error
    raise error from cause
