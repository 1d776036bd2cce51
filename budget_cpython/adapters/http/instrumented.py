"""Clients of httpx and httpx2 inside blocks: budgeted by `instrument`, else warned of once."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from importlib import import_module
from types import MethodType
from typing import Any

from budget_core.log import log
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import (
    BudgetedCall,
    accounts_to_draw_on,
    break_off,
    is_answering,
    is_repeating,
)
from budget_cpython.adapters.current import inside
from budget_cpython.adapters.http import send as sending
from budget_cpython.adapters.http.attempt import COUNTED, format_of
from budget_cpython.adapters.http.sdk_client import with_cause
from budget_cpython.adapters.provider_errors import UnbilledError, as_settled
from budget_cpython.context import process_state
from budget_cpython.context.entered import enter, entered, leave
from budget_cpython.context.process_state import SWITCHES
from budget_cpython.vendors.openai import Completions, Embeddings, Responses

_PACKAGES = ("httpx", "httpx2")
# Their paths are also those of others' APIs, whose requests name no model.
_COMMON = (Completions, Embeddings, Responses)
# What sends the requests of each SDK, with the error for an answer that is one.
_GENERATED = ("SyncAPIClient.request", "AsyncAPIClient.request")
_GOOGLE = tuple(
    f"BaseApiClient.{name}"
    for name in ("request", "request_streamed", "async_request", "async_request_streamed")
)
_SENDERS = (
    ("openai._base_client", _GENERATED, "openai", "APIStatusError"),
    ("anthropic._base_client", _GENERATED, "anthropic", "APIStatusError"),
    ("google.genai._api_client", _GOOGLE, "google.genai.errors", "APIError"),
)


def instrument() -> None:
    """Budget every call of a known vendor's model that is made by httpx or httpx2 inside a block.

    It holds for all clients, made before or afterwards, of openai, anthropic, google-genai and any
    other SDK on these packages, and outside blocks it changes nothing. A client that is budgeted
    already counts a call once. Refusals are as those of `budgeted`. `uninstrument` ends it.
    """
    for name in _PACKAGES:
        with suppress(ImportError):
            import_module(name)
    SWITCHES.is_instrumented = True
    watch()


def uninstrument() -> None:
    """Undo `instrument`: blocks count wrapped clients alone again."""
    SWITCHES.is_instrumented = False


def watch() -> None:
    """See the calls of the clients of httpx and httpx2, and of the SDKs, as far as imported now."""
    for name in _PACKAGES:
        package = sys.modules.get(name)
        for kind, replace in (("Client", _seen_blocking), ("AsyncClient", _seen)):
            _replace(getattr(package, kind, None), "send", replace)
    if SWITCHES.is_instrumented:
        for module, names, home, error in _SENDERS:
            _give_causes(
                sys.modules.get(module), names, getattr(sys.modules.get(home), error, None)
            )
        google = getattr(sys.modules.get("google.genai._api_client"), "BaseApiClient", None)
        _replace(google, "_use_aiohttp", _without_aiohttp)


@contextmanager
def counted(accounts: Sequence[BudgetAccount]) -> Iterator[None]:
    """Have clients that are not wrapped draw on accounts, and on the blocks around, in here alone.

    It is for a framework's model, whose calls are those of its client.
    """
    watch()
    entry = enter(None, None)
    entry.counts_clients = True
    try:
        with inside(accounts):
            yield
    finally:
        leave(entry)


def counts_clients() -> bool:
    """Tell whether clients that are not wrapped draw on the blocks here, as `counted` has them."""
    return any(entry.counts_clients for entry in entered())


def _is_counting() -> bool:
    return SWITCHES.is_instrumented or is_repeating() or counts_clients()


def _give_causes(module: Any, names: tuple[str, ...], status_error: Any) -> None:
    """Have the errors of an SDK's requests have the budget's error as their cause."""
    for name in names if status_error else ():
        kind, _, function = name.partition(".")
        replace = partial(with_cause, status_error=status_error)
        _replace(getattr(module, kind, None), function, replace)


def _replace(kind: Any, name: str, replace: Callable[[Any], Any]) -> None:
    """Replace a function of a class once, if it is there."""
    if kind is not None and name in vars(kind):
        process_state.replace(kind, name, replace)


def _seen_blocking(send: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send)
    def seen(self: Any, request: Any, **options: Any) -> Any:
        if not _may_be_uncounted(request) or not _is_budgeted(request, request.read()):
            before = sys.exception()
            try:
                return send(self, request, **options)
            except Exception as error:
                for call, cost in _broken_off(request, error, before):
                    call.fail_blocking(cost)
                raise
        return sending.send_blocking(self, MethodType(send, self), (), request, **options)

    return seen


def _seen(send: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(send)
    async def seen(self: Any, request: Any, **options: Any) -> Any:
        if not _may_be_uncounted(request) or not _is_budgeted(request, await request.aread()):
            before = sys.exception()
            try:
                return await send(self, request, **options)
            except Exception as error:
                for call, cost in _broken_off(request, error, before):
                    await call.fail(cost)
                raise
        return await sending.send(self, MethodType(send, self), (), request, **options)

    return seen


def _broken_off(request: Any, error: Exception, before: Any) -> list[tuple[BudgetedCall, Any]]:
    """Return the calls that an attempt answered which broke off, each with its settlement's error.

    An attempt that was refused, or never sent, cost nothing, and the next one takes its place.
    """
    if not is_answering() or format_of(request) is None:
        return []
    cost = as_settled(error, before)
    return [] if isinstance(cost, UnbilledError) else [(call, cost) for call in break_off()]


def _may_be_uncounted(request: Any) -> bool:
    """Tell whether a request may be a model's call that a block has to count and has not yet."""
    if hasattr(request, COUNTED) or (SWITCHES.has_warned and not _is_counting()):
        return False
    return bool(accounts_to_draw_on()) and format_of(request) is not None


def _is_budgeted(request: Any, content: bytes) -> bool:
    """Tell whether a model's call is budgeted here; if not, warn once that none is."""
    if isinstance(format_of(request), _COMMON) and b'"model"' not in content:
        return False
    if not _is_counting():
        SWITCHES.has_warned = True
        log(
            "warning",
            f"a call to {request.url.host} was made inside a budget(...) block that does not count "
            "it: give its client to budgeted(client), or call budget_cpython.instrument() at the "
            "program's start. This is said once.",
        )
    return _is_counting()


def _without_aiohttp(uses: Callable[..., bool]) -> Callable[..., bool]:
    """Have google-genai's asyncio calls go through httpx, also where aiohttp is installed."""

    @wraps(uses)
    def uses_aiohttp(self: Any) -> bool:
        return not SWITCHES.is_instrumented and uses(self)

    return uses_aiohttp
