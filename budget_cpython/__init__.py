"""Budgets for LLM agents on CPython: the core's public names, some of them upgraded.

Upgraded are the trackers, the daily allowance and what a turn or run has (a lock), the
configurations (frozen dataclasses), answers (dataclasses), deadlines (cancellation, a current one),
the file store (one file, durable), the clock (goes on while the machine sleeps), the operative
(events, tools in threads) and the ledgers (threads, time zones). New are what makes tools of
functions and bounds them, a list of prices, and ledgers that outlive a process. A name is loaded
from its module when it is first asked for.
"""

import budget_core

# Each name with its module, "" for the core's own; the most used in docs/ first.
_HOMES = {
    "budget": "adapters.block",
    "tool": "agent.tool",
    "budgeted": "adapters.budgeted",
    "Operative": "agent.operative",
    "dollars": "",
    "Budget": "agent.run_config",
    "Tool": "agent.checked_tool",
    "Limit": "",
    "ChatClient": "",
    "Ledger": "ledger",
    "instrument": "adapters.http.instrumented",
    "Deadline": "context.deadline",
    "BudgetWrapper": "",
    "BudgetExceededError": "",
    "Price": "",
    "FileBudgetStore": "files.store",
    "WALL": "wall_clock",
    "DailyBudgetTracker": "trackers",
    "DeadlineExceeded": "",
    "Envelope": "agent.envelope",
    "ListedPrices": "prices.listed_prices",
    "TurnBudget": "turn",
    "ExoclawBudget": "agent.exoclaw",
    "parse_limits": "ledger.limit_parser",
    "ChatResponse": "",
    "TurnRuntimeState": "turn",
    "ToolOutput": "",
    "TurnBudgetPolicy": "",
    "HttpLedger": "ledger.http",
    "BoundedToolExecutor": "executor",
    "TurnBudgetTracker": "trackers",
    "open_ledger": "ledger.opening",
    "LedgerUnavailableError": "",
    "DailyAllowance": "trackers",
    "DeadlineToken": "context.deadline",
    "SqliteLedger": "ledger.sqlite",
    "TurnBudgetConfig": "config",
    "Middleware": "",
    "StopReason": "",
    "StopRequested": "",
    "LeasedLedger": "ledger.lease",
    "DailyBudgetConfig": "config",
    "InMemoryBudgetStore": "",
    "ToolCall": "",
    "tool_timeout": "executor",
    "ProviderError": "",
    "BudgetError": "",
    "Enforcement": "",
    "WindDown": "agent.run_config",
    "open_async_ledger": "ledger.opening",
    "Allowance": "",
    "OperativeResult": "",
    "CitationAccumulator": "turn",
    "ToolTraceEntry": "turn",
    "uninstrument": "adapters.http.instrumented",
}
__all__ = list(_HOMES)

# What makes, passes on or takes answers, which are dataclasses from then on.
_ANSWERING = (
    "BudgetWrapper",
    "ChatClient",
    "ChatResponse",
    "ExoclawBudget",
    "Operative",
    "ToolCall",
)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from budget_cpython.version import version

        return version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _ANSWERING:
        __import__(__name__ + ".provider")
    module = _HOMES[name]
    home = __import__(f"{__name__}.{module}", fromlist=(name,)) if module else budget_core
    globals()[name] = value = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
