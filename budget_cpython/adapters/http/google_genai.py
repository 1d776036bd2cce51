"""A budget round a client of google-genai."""

from collections.abc import Sequence
from typing import Any, TypeVar

from google.genai import Client
from google.genai.errors import APIError

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.client import budgeted_http_client
from budget_cpython.adapters.http.sdk_client import refuse_client, with_cause

T = TypeVar("T")

_REQUESTS = ("request", "request_streamed", "async_request", "async_request_streamed")


def budgeted(client: T, accounts: Sequence[BudgetAccount]) -> T:
    """Return a client of the same class whose calls draw on accounts.

    Counted are `generate_content` and `generate_content_stream` of `models` and `chats`, also of
    `aio`; counting tokens is free; live sessions, interactions, embeddings and batches pass
    through. asyncio calls go through httpx, also where aiohttp is installed. A refusal raises
    `google.genai.errors.ClientError` with the code 402; its cause is the error of the budget.
    Closing it leaves the connections open for `client`, whose end closes them.

    Raises `ValueError` for anything but a `google.genai.Client`, and for one with sessions of
    google-auth.
    """
    if not isinstance(client, Client):
        refuse_client(client, "give a google.genai.Client")
    api: Any = client._api_client
    if api._async_httpx_client is None:
        refuse_client(client, "it uses sessions of google-auth, not httpx")
    new = _twin(api)
    new._httpx_client = budgeted_http_client(api._httpx_client, accounts)
    new._async_httpx_client = budgeted_http_client(api._async_httpx_client, accounts)
    new._http_options = api._http_options.model_copy(
        update={"httpx_client": new._httpx_client, "httpx_async_client": new._async_httpx_client}
    )
    new.microbudget_original = client  # whose end closes the connections
    new.close, new.aclose = _leave, _leave_async
    for name in _REQUESTS:
        setattr(new, name, with_cause(getattr(new, name), APIError))
    found: T = _with_api(client, api, new)
    return found


def _leave() -> None:
    """Leave the connections to the client that they belong to."""


async def _leave_async() -> None:
    """Leave the connections to the client that they belong to."""


def _twin(part: Any) -> Any:
    new = object.__new__(type(part))
    new.__dict__.update(vars(part))
    return new


def _with_api(part: Any, old: Any, new: Any) -> Any:
    """Return a copy of a part of the SDK whose requests go through another API client."""
    twin = _twin(part)
    for name, value in vars(part).items():
        if value is old:
            setattr(twin, name, new)
        elif getattr(value, "_api_client", None) is old:
            setattr(twin, name, _with_api(value, old, new))
    return twin
