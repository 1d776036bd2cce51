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
from types import SimpleNamespace
from typing import Any, TypeVar, Unpack, overload

from budget_cpython.adapters.account import Options
from budget_cpython.adapters.block import BudgetBlock
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.ledger.limit_parser import ParsedBudget
from budget_cpython.ledger.plugins import find_plugin, register

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_GROUP = "microbudget.adapters"
# the adapter of what a package makes, by the package; each has `budgeted(what, accounts)`
_ADAPTERS = {
    "openai": ("adapters.http.openai", Caller("openai", tools=False)),
    "anthropic": ("adapters.http.anthropic", Caller("anthropic", tools=False)),
    "google.genai": ("adapters.http.google_genai", Caller("google", tools=False)),
    "httpx": ("adapters.http.client", Caller("httpx", tools=False)),
    "httpx2": ("adapters.http.client", Caller("httpx", tools=False)),
    "litellm": ("adapters.frameworks.litellm", Caller("litellm", tools=False)),
    "langchain_core": ("adapters.frameworks.langchain.model", Caller("langchain", tools=False)),
    "agents": ("adapters.frameworks.openai_agents", Caller("openai-agents")),
    "pydantic_ai": ("adapters.frameworks.pydantic_ai", Caller("pydantic-ai")),
    "claude_agent_sdk": ("run.claude_agent", Caller("claude-agent")),
    "mcp": ("adapters.frameworks.mcp", Caller("mcp", models=False)),
    "smolagents": ("adapters.frameworks.smolagents", Caller("smolagents")),
    "crewai": ("adapters.frameworks.crewai", Caller("crewai", tools=False)),
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
      those of `account` in a `ledger`, open or a URL as `open_ledger` takes it. Without one, limits
      with a window are in the default ledger, and the others in memory. Without limits it draws on
      the account as it is, or on the blocks alone.
    - `@budgeted("$0.10")` gives each call of a function a budget of its own. All of its calls share
      limits with a window, and those in a `ledger`.

    `options` are those that `help(budget)` lists; docs/adapters.md says what each adapter does with
    them. Raises `ValueError` for what it has no adapter for, and for malformed limits and options.
    """
    if isinstance(what, str):
        if limits is not None:
            raise ValueError(f"a decorator takes its limits in one text, not {limits!r} as well")
        return _decorator(what, ledger, account, options)
    found, caller = _adapter_of(what)
    return found.budgeted(what, accounts_of(limits, ledger, account, caller, **options))


def adapter(package: str) -> Callable[[F], F]:
    """Return a decorator for a function `(what, accounts)` that puts accounts round an object.

    `budgeted` calls it for objects whose class, or one above it, is of a package. An installed
    package names its module with such a function `budgeted` in the group `microbudget.adapters`
    of its entry points. Raises `ValueError` for a package that has an adapter.
    """
    add = register(_GROUP, package, _ADAPTERS)

    def decorate(function: F) -> F:
        add(SimpleNamespace(budgeted=function))
        return function

    return decorate


def _adapter_of(what: Any) -> tuple[Any, Caller]:
    """Return the module that puts accounts round an object, by the package of its class."""
    kinds = [what.__name__] if hasattr(what, "__spec__") else []
    kinds += [kind.__module__ for kind in type(what).__mro__ if kind is not object]
    packages = [name for kind in kinds for name in _packages_of(kind)]
    package = next((name for name in packages if name in _ADAPTERS), None)
    if package is not None:
        name, caller = _ADAPTERS[package]
        found = import_module("budget_cpython." + name)
    else:
        plugin = find_plugin(_GROUP, packages)
        if plugin is None:
            raise ValueError(
                "budgeted takes a client or model of a known SDK, or limits such as '$0.10' to "
                f"decorate a function, not {what!r}: docs/adapters.md lists what it knows"
            )
        package, found = plugin
        caller = Caller(package)
    caller_of = getattr(found, "caller_of", None)
    return found, caller if caller_of is None else caller_of(what)


def _packages_of(module: str) -> list[str]:
    """Return a module's name and those of all packages around it, the innermost first."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _decorator(limits: str, ledger: Any, account: str | None, options: Any) -> Callable[[F], F]:
    budget = ParsedBudget.read(limits)  # refuses what is malformed now
    is_kept = ledger is not None or (budget.limits and not budget.unwindowed)

    def decorate(function: F) -> F:
        if not callable(function) or isinstance(function, staticmethod):
            raise ValueError(
                f"budgeted decorates functions, not {function!r}: put it below @classmethod, "
                "@staticmethod or @property"
            )
        if isgeneratorfunction(function) or isasyncgenfunction(function):
            raise _generator_error(function)
        named = {"ledger": ledger, "account": account, "caller": Caller(f"@{_name_of(function)}")}
        shared = BudgetBlock(budget, **named, **options)

        def block() -> BudgetBlock:
            return shared if is_kept else BudgetBlock(budget, **named, **options)

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


def _name_of(function: Any) -> str:
    module = getattr(function, "__module__", "__main__")
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name if module == "__main__" else f"{module}.{name}"


async def _awaited_inside(block: BudgetBlock, coroutine: Coroutine[Any, Any, Any]) -> Any:
    with block:
        return await coroutine


def _generator_error(function: Any) -> ValueError:
    return ValueError(
        f"budgeted cannot decorate {function!r}: a generator runs in parts, so enter budget(...) "
        "in its own code, or around the code that iterates it"
    )
