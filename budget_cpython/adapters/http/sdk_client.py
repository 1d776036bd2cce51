"""A budget round clients of openai and anthropic, which are generated from one template."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction, isgeneratorfunction
from typing import Any, NoReturn, TypeVar

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.client import budgeted_http_client
from budget_cpython.adapters.provider_errors import budget_error

T = TypeVar("T")


def budgeted_copy(client: T, accounts: Sequence[BudgetAccount], status_error: type[Exception]) -> T:
    """Return a copy of a client whose HTTP attempts draw on accounts.

    It is of the very same class, which these SDKs ask for. A refusal raises their `status_error`,
    whose cause is the error of the budget. Copies with other options stay budgeted.
    """
    original: Any = client
    http_client = budgeted_http_client(original._client, accounts)
    copied: T = _kept(original.copy(http_client=http_client), accounts, status_error)
    return copied


def refuse_client(client: object, why: str) -> NoReturn:
    """Raise the `ValueError` for a client that cannot be budgeted."""
    raise ValueError(f"{type(client).__name__} cannot be budgeted: {why}")


def _kept(client: Any, accounts: Sequence[BudgetAccount], status_error: type[Exception]) -> Any:
    """Give one client its own `request` and `copy`: a subclass would not be of its class."""
    copy = client.copy

    @wraps(copy)
    def copy_kept(*given: Any, **options: Any) -> Any:
        if options.get("http_client") is not None:
            options["http_client"] = budgeted_http_client(options["http_client"], accounts)
        return _kept(copy(*given, **options), accounts, status_error)

    client.request = with_cause(client.request, status_error)
    client.copy = client.with_options = copy_kept
    return client


def with_cause(request: Callable[..., Any], status_error: type[Exception]) -> Callable[..., Any]:
    """Return a function of an SDK whose errors have the budget's, if there is one, as cause."""

    @wraps(request)
    async def run_async(*given: Any, **options: Any) -> Any:
        with _causes(status_error):
            return await request(*given, **options)

    @wraps(request)
    def run_stream(*given: Any, **options: Any) -> Iterator[Any]:
        with _causes(status_error):
            yield from request(*given, **options)

    @wraps(request)
    def run(*given: Any, **options: Any) -> Any:
        with _causes(status_error):
            return request(*given, **options)

    if iscoroutinefunction(request):
        return run_async
    return run_stream if isgeneratorfunction(request) else run


@contextmanager
def _causes(status_error: type[Exception]) -> Iterator[None]:
    before = sys.exception()
    try:
        yield
    except status_error as error:
        cause = budget_error(error, before)
        if cause is None:
            raise
        raise error from cause
