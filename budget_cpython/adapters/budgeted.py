"""`budgeted(...)`: put a budget round an SDK's client, a framework's model, or a function."""

from collections.abc import Callable, Coroutine
from functools import wraps
from importlib import import_module
from inspect import (
    isasyncgen,
    isasyncgenfunction,
    iscoroutine,
    iscoroutinefunction,
    isgenerator,
    isgeneratorfunction,
)
from typing import Any, TypeVar, Unpack, overload

from budget_cpython.adapters.block import BudgetBlock, budget
from budget_cpython.adapters.layer import Layer, Options
from budget_cpython.ledger.limit_parser import parse_budget

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

# the adapter of what a package makes, by the package; each has `budgeted(what, layers)`
_ADAPTERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google.genai": "google_genai",
    "httpx": "http_client",
    "httpx2": "http_client",
    "litellm": "litellm",
    "langchain_core": "langchain_model",
    "agents": "openai_agents",
    "pydantic_ai": "pydantic_ai",
    "claude_agent_sdk": "claude_agent",
    "mcp": "mcp",
    "smolagents": "smolagents",
    "crewai": "crewai",
}


@overload
def budgeted(
    what: str,
    /,
    *,
    ledger: Any = None,
    account: str | None = None,
    **options: Unpack[Options],
) -> Callable[[F], F]: ...
@overload
def budgeted(
    what: T,
    limits: str | None = None,
    /,
    *,
    ledger: Any = None,
    account: str | None = None,
    **options: Unpack[Options],
) -> T: ...
def budgeted(
    what: Any,
    limits: str | None = None,
    /,
    *,
    ledger: Any = None,
    account: str | None = None,
    **options: Any,
) -> Any:
    """Return `what` with a budget round it: an SDK's client, a framework's model, or a function.

    - `budgeted(AsyncOpenAI(), "$5/day + 200 calls/hour")` returns a client of the same type, whose
      calls draw on those limits and on the blocks around them (`with budget(...)`). They replace
      those of `account` in a `ledger`, open or a URL as `open_ledger` takes it, or else are in
      memory. Without limits it draws on the account as it is, or on the blocks alone.
    - `@budgeted("$0.10")` gives each call of a function a budget of its own; with a `ledger` all of
      them draw on its account.

    `options` are those of `Options`; docs/adapters.md says what each adapter does with them. Raises
    `ValueError` for what it has no adapter for, and for malformed limits and options.
    """
    if isinstance(what, str):
        if limits is not None:
            raise ValueError(f"a decorator takes its limits in one text, not {limits!r} as well")
        return _decorator(what, ledger=ledger, account=account, **options)
    adapter = _adapter_of(what)
    layers = layers_of(limits, ledger, account, **options)
    return adapter(what, layers)


def layers_of(
    limits: str | None, ledger: Any, account: str | None, **options: Unpack[Options]
) -> tuple[Layer, ...]:
    """Return the layer of what `budgeted` was given; none where it was given nothing."""
    if limits is None and ledger is None and account is None and not options:
        return ()
    found, seconds = ([], None) if limits is None else parse_budget(limits)
    if seconds is not None:
        raise ValueError(
            f"limits of a client have no time: {limits!r}. Give it to a block, as in "
            "with budget('10 min')"
        )
    return (Layer(found, ledger, account, **options),)


def _adapter_of(what: Any) -> Callable[[Any, tuple[Layer, ...]], Any]:
    """Return the function that puts layers round an object, by the package of its class."""
    kinds = [what.__name__] if hasattr(what, "__spec__") else []
    kinds += [kind.__module__ for kind in type(what).__mro__]
    for kind in kinds:
        for package, module in _ADAPTERS.items():
            if kind == package or kind.startswith(package + "."):
                adapter = import_module("budget_cpython.adapters." + module)
                found: Callable[[Any, tuple[Layer, ...]], Any] = adapter.budgeted
                return found
    raise ValueError(
        "budgeted takes a client or model of a known SDK, or limits such as '$0.10' to decorate a "
        f"function, not {what!r}: docs/adapters.md lists what it knows"
    )


def _decorator(limits: str, ledger: Any, **options: Any) -> Callable[[F], F]:
    shared = budget(limits, ledger=ledger, **options)  # refuses what is malformed now

    def block() -> BudgetBlock:
        return shared if ledger is not None else budget(limits, **options)

    def decorate(function: F) -> F:
        if not callable(function) or isinstance(function, staticmethod):
            raise ValueError(
                f"budgeted decorates functions, not {function!r}: put it below @classmethod, "
                "@staticmethod or @property"
            )
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise _generator_error(function)
        if iscoroutinefunction(function):

            @wraps(function)
            async def run_async(*given: Any, **named: Any) -> Any:
                with block():
                    return await function(*given, **named)

            return run_async  # type: ignore[return-value]

        @wraps(function)
        def run(*given: Any, **named: Any) -> Any:
            with block() as inside:
                found = function(*given, **named)
            if isgenerator(found) or isasyncgen(found):
                raise _generator_error(function)
            return _awaited_inside(inside, found) if iscoroutine(found) else found

        return run  # type: ignore[return-value]

    return decorate


async def _awaited_inside(block: BudgetBlock, coroutine: Coroutine[Any, Any, Any]) -> Any:
    with block:
        return await coroutine


def _generator_error(function: Any) -> ValueError:
    return ValueError(
        f"budgeted cannot decorate {function!r}: a generator runs in parts, so enter budget(...) "
        "in the code that iterates over it"
    )
