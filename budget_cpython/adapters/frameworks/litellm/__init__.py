"""Put a budget round LiteLLM: its functions, their retries, and its router's attempts."""

import time
from asyncio import sleep
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from inspect import iscoroutinefunction, signature
from typing import Any, Final
from uuid import uuid4

try:
    import litellm
except ImportError as error:
    raise ImportError("LiteLLM needs: pip install 'microbudget[litellm]'") from error
from litellm.exceptions import BudgetExceededError
from litellm.router import Router
from litellm.utils import _calculate_retry_after, _should_retry

from budget_core.errors import BudgetError
from budget_core.ledger.outbox import finish
from budget_core.provider import maybe_await
from budget_cpython.adapters.account import Accounts
from budget_cpython.adapters.call import accounts_to_draw_on
from budget_cpython.adapters.frameworks.litellm.calls import FORMATS, ORIGINALS, attempt
from budget_cpython.adapters.http.instrumented import counts_clients
from budget_cpython.adapters.object_proxy import ObjectProxy
from budget_cpython.context.deadline import Deadline
from budget_cpython.context.process_state import ROUTERS, replace

_ROUTED: Final = ("completion", "acompletion", "embedding", "aembedding")
_UNSEEN: Final = (  # of a router: their attempts do not pass litellm's own functions
    "text_completion",
    "atext_completion",
    "responses",
    "aresponses",
    "anthropic_messages",
    "aanthropic_messages",
)
_RETRIES: Final = 2  # as OpenAI's client makes them
_MARK: Final = "microbudget"


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return a stand-in for the module `litellm`, or for a `litellm.Router`.

    Raises `ValueError` for anything else.
    """
    caller = _Caller(accounts)
    if what is litellm:
        return ObjectProxy(what, {name: caller.function(name) for name in FORMATS})
    if isinstance(what, Router):
        found = {name: caller.marked(getattr(what, name)) for name in _ROUTED}
        found.update({name: _refused(name) for name in _UNSEEN if hasattr(what, name)})
        return ObjectProxy(what, found)
    raise ValueError(
        "budgeted takes the module litellm, as in budgeted(litellm, '$5/day').completion(…), or a "
        f"litellm.Router, not {what!r}"
    )


class _Caller:
    """Makes calls of LiteLLM that draw on accounts."""

    def __init__(self, accounts: Accounts) -> None:
        self.accounts = accounts
        self._mark = uuid4().hex
        ROUTERS[self._mark] = self

    def function(self, name: str) -> Callable[..., Any]:
        """Return a function of LiteLLM within the budget, each of whose attempts counts."""
        original = ORIGINALS[name]
        with_fallbacks = self.marked(original)

        pause = sleep if iscoroutinefunction(original) else time.sleep

        async def ask(given: tuple[Any, ...], options: dict[str, Any]) -> Any:
            body = _by_name(name, given, options)
            if body.get("fallbacks"):
                return await maybe_await(with_fallbacks(**body))
            retries = left = _take_retries(body)
            while True:
                try:
                    return await attempt(self.accounts, name, body)
                except Exception as error:
                    seconds = _pause(error, left, retries)
                    if seconds is None:
                        raise
                left -= 1
                await maybe_await(pause(seconds))

        return _like(original, ask)

    def marked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function from which LiteLLM calls its own functions within the budget."""
        count_functions()

        @wraps(function)
        def call(*given: Any, **options: Any) -> Any:
            options["metadata"] = {**(options.get("metadata") or {}), _MARK: self._mark}
            return function(*given, **options)

        return call


def count_functions() -> None:
    """Have LiteLLM's functions count the calls that a router, fallbacks or others' models make."""
    for name in FORMATS:
        if getattr(litellm, name) is ORIGINALS[name]:
            replace(litellm, name, partial(_counting, name=name))


def _counting(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    async def ask(given: tuple[Any, ...], options: dict[str, Any]) -> Any:
        accounts = _take_accounts(options)
        if accounts is None:
            return await maybe_await(original(*given, **options))
        return await attempt(accounts, name, _by_name(name, given, options))

    return _like(original, ask)


def _like(
    original: Callable[..., Any], ask: Callable[[tuple[Any, ...], dict[str, Any]], Any]
) -> Callable[..., Any]:
    """Return a function that asks, and is awaited if one of LiteLLM is."""

    @wraps(original)
    def call(*given: Any, **options: Any) -> Any:
        return finish(ask(given, options))

    @wraps(original)
    async def call_async(*given: Any, **options: Any) -> Any:
        return await ask(given, options)

    return call_async if iscoroutinefunction(original) else call


def _take_accounts(options: dict[str, Any]) -> Accounts | None:
    """Return the accounts of a call's mark, none for that of a model whose client counts it."""
    metadata = options.get("metadata")
    if not isinstance(metadata, dict) or _MARK not in metadata:
        return () if counts_clients() and accounts_to_draw_on() else None
    rest = {name: value for name, value in metadata.items() if name != _MARK}
    options["metadata"] = rest or None
    caller: _Caller | None = ROUTERS.get(metadata[_MARK])
    if caller is None:
        raise RuntimeError("the budgeted router is gone: keep it for as long as its streams")
    return caller.accounts


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*_given: Any, **_options: Any) -> Any:
        raise NotImplementedError(
            f"{name} of a router cannot be budgeted: use completion, acompletion, embedding or "
            f"aembedding, or budgeted(litellm).{name}"
        )

    return refuse


@lru_cache
def _parameters(name: str) -> tuple[str, ...]:
    return tuple(signature(ORIGINALS[name]).parameters)


def _by_name(name: str, given: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(_parameters(name), given, strict=False)), **options}


def _take_retries(body: dict[str, Any]) -> int:
    """Return the number of retries of a call, which LiteLLM and its clients then do not do."""
    asked = (body.pop("num_retries", None), body.pop("max_retries", None))
    body["max_retries"] = 0
    if litellm.num_retries:
        return 0  # LiteLLM does it for all calls
    return next((times for times in asked if times is not None), _RETRIES)


def _pause(error: Exception, left: int, retries: int) -> float | None:
    """Return the seconds before the next attempt; `None` if there is none."""
    status = getattr(error, "status_code", None)
    refused = isinstance(error, BudgetError | BudgetExceededError)
    if not left or refused or type(status) is not int or not _should_retry(status):
        return None
    headers = getattr(getattr(error, "response", None), "headers", None)
    seconds: float = _calculate_retry_after(left, retries, headers)
    return max(0.0, min(seconds, Deadline.current().remaining_seconds()))
