"""Budgets for LLM agents on CPython: the core's public names, some of them upgraded.

Upgraded are the trackers, the daily allowance and what a turn or run has (a lock), the
configurations (frozen dataclasses), answers (dataclasses), deadlines (cancellation, a current one),
the file store (one file, durable), the clock (goes on while the machine sleeps), the operative
(events, tools in threads) and the ledgers (threads, time zones). New are what makes tools of
functions and bounds them, a list of prices, and ledgers that outlive a process. A name is loaded
from its module when it is first asked for.
"""

import budget_core

_OWN = {
    "AsyncLedgerProtocol": "ledger.opening",
    "BoundedToolExecutor": "executor",
    "Budget": "agent.run_config",
    "BudgetBlock": "adapters.block",
    "CitationAccumulator": "turn",
    "DailyAllowance": "trackers",
    "DailyBudgetConfig": "config",
    "DailyBudgetTracker": "trackers",
    "Deadline": "deadline",
    "DeadlineToken": "deadline",
    "Envelope": "agent.envelope",
    "ExoclawBudget": "agent.exoclaw",
    "Event": "agent.parallel",
    "FileBudgetStore": "files.store",
    "HttpLedger": "ledger.http",
    "LeasedLedger": "ledger.lease",
    "Ledger": "ledger",
    "LedgerCorruptError": "ledger.errors",
    "LedgerProtocol": "ledger.opening",
    "ListedPrices": "prices.listed_prices",
    "NoSlotError": "executor",
    "Operative": "agent.operative",
    "RunHandle": "agent.run_handle",
    "SqliteLedger": "ledger.sqlite",
    "Tool": "agent.checked_tool",
    "ToolOptions": "executor",
    "ToolOutcome": "executor",
    "ToolTimeoutError": "executor",
    "ToolTraceEntry": "turn",
    "TurnBudget": "turn",
    "TurnBudgetConfig": "config",
    "TurnBudgetTracker": "trackers",
    "TurnRuntimeState": "turn",
    "WALL": "wall_clock",
    "WindDown": "agent.run_config",
    "budget": "adapters.block",
    "budgeted": "adapters.budgeted",
    "disable_telemetry": "telemetry.switch",
    "enable_telemetry": "telemetry.switch",
    "instrument": "adapters.http.instrumented",
    "open_async_ledger": "ledger.opening",
    "open_ledger": "ledger.opening",
    "parse_budget": "ledger.limit_parser",
    "parse_limits": "ledger.limit_parser",
    "tool": "agent.tool",
    "tool_options": "executor",
    "tool_timeout": "executor",
    "uninstrument": "adapters.http.instrumented",
    "with_timeout": "executor",
}

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
    if name == "__all__":
        return _all()
    if name == "__version__":
        from budget_cpython.version import version

        return version()
    home = budget_core
    if name in _ANSWERING:
        __import__(__name__ + ".provider")
    if name in _OWN:
        home = __import__(f"{__name__}.{_OWN[name]}", fromlist=(name,))
    elif name not in _all():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_all()})


def _all() -> list[str]:
    from budget_core._names import PUBLIC

    lines = PUBLIC.split("\n")
    return sorted({*_OWN, *(name for line in lines for name in line.split(" ")[1:])})
