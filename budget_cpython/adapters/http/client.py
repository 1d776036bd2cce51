"""A budget round a client of httpx or httpx2: each attempt to a known path draws on it."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

from budget_cpython.adapters.account import Accounts, BudgetAccount
from budget_cpython.adapters.http.attempt import package_of
from budget_cpython.adapters.http.send import send, send_blocking
from budget_cpython.adapters.object_proxy import named_like

T = TypeVar("T")


def budgeted_http_client(client: T, accounts: Sequence[BudgetAccount] = ()) -> T:
    """Return a client of the same type, on the same connections, whose calls draw on accounts.

    A request whose path is that of a model's API is admitted, changed, sent, counted and settled;
    all others pass through. The formats of `vendors.registry` are recognised. A refused request is
    not sent: its response has the status 402 and the form of the vendor's errors, and the error of
    the budget is its extension `microbudget`. A request's own extension `microbudget`, the `Terms`
    of `http.attempt`, takes the place of the client's.

    A current deadline (`Deadline.current`) lowers the timeouts. A call that it ends is refused, and
    the message says whether it was sent; a stream that has begun raises `DeadlineExceeded`.

    Raises `ValueError` if `client` is not one of httpx or httpx2.
    """
    base: Any = getattr(type(client), "microbudget_base", type(client))
    package = package_of(client)
    is_async = isinstance(client, package.AsyncClient)
    kind = (_async_kind if is_async else _blocking_kind)(base)
    new: Any = kind.__new__(kind)
    new.__dict__.update(vars(client))
    new.microbudget_accounts = (*getattr(client, "microbudget_accounts", ()), *accounts)
    new.microbudget_original = client  # whose end closes the connections
    found: T = new
    return found


budgeted = budgeted_http_client


def accounts_of(client: Any) -> Accounts | None:
    """Return the accounts of a budgeted client, `None` for any other."""
    found: Accounts | None = getattr(client, "microbudget_accounts", None)
    return found


@lru_cache
def _blocking_kind(base: Any) -> Any:
    class BudgetedClient(base):  # type: ignore[misc]
        microbudget_base = base

        def send(self, request: Any, **options: Any) -> Any:
            return send_blocking(self, super().send, self.microbudget_accounts, request, **options)

        def __del__(self) -> None:
            """Leave the connections to the client that they belong to."""

    return named_like(base, BudgetedClient)


@lru_cache
def _async_kind(base: Any) -> Any:
    class BudgetedAsyncClient(base):  # type: ignore[misc]
        microbudget_base = base

        async def send(self, request: Any, **options: Any) -> Any:
            return await send(self, super().send, self.microbudget_accounts, request, **options)

        def __del__(self) -> None:
            """Leave the connections to the client that they belong to."""

    return named_like(base, BudgetedAsyncClient)
