"""Budgets for LLM agents on CPython: the core's public names, some of them upgraded.

Upgraded are the trackers and what a turn or run has (a lock), the configurations (frozen
dataclasses), deadlines (cancellation, a current one), the file store (one file, durable), the
clock (goes on while the machine sleeps), the operative (events, tools in threads) and the ledgers
(threads, time zones). New are what bounds tools, a list of prices, and ledgers that outlive a
process. A name is loaded from its module when it is first asked for.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.account import Limit
    from budget_core.chat import ChatClient
    from budget_core.clock import WallClock
    from budget_core.composite import CompositePolicy
    from budget_core.config import Enforcement
    from budget_core.errors import (
        BudgetError,
        DeadlineExceeded,
        ProviderError,
        StateCorruptError,
        StoreError,
    )
    from budget_core.estimate import estimate_tokens
    from budget_core.http import tls_context
    from budget_core.ledger_errors import (
        BudgetExceededError,
        HoldSettledError,
        KeyReusedError,
        LedgerError,
        LedgerFullError,
        LedgerUnavailableError,
        UnknownAccountError,
        UnknownHoldError,
    )
    from budget_core.ledger_records import Balance, Hold
    from budget_core.lock import thread_lock
    from budget_core.middleware import Middleware, Request
    from budget_core.monotonic import MonotonicClock
    from budget_core.policy import TurnBudgetPolicy
    from budget_core.prices import Price
    from budget_core.progress import NoProgress
    from budget_core.provider import ChatResponse, ToolCall
    from budget_core.result import OperativeResult, RunStoppedError
    from budget_core.stop import (
        AllOf,
        AnyOf,
        MaxCost,
        MaxIterations,
        MaxTokens,
        MaxToolCalls,
        StopCondition,
        StopReason,
        StopRequested,
        Timeout,
    )
    from budget_core.store import InMemoryBudgetStore
    from budget_core.tool import Tool, ToolOutput
    from budget_core.tracker import BudgetTracker
    from budget_core.turn_budget import Allowance
    from budget_core.wrapper import BudgetWrapper
    from budget_cpython.clock import WALL
    from budget_cpython.config import DailyBudgetConfig, TurnBudgetConfig
    from budget_cpython.deadline import Deadline, DeadlineToken
    from budget_cpython.envelope import Envelope
    from budget_cpython.executor import (
        BoundedToolExecutor,
        NoPlaceError,
        ToolOptions,
        ToolOutcome,
        ToolTimeoutError,
        tool_options,
        tool_timeout,
        with_timeout,
    )
    from budget_cpython.exoclaw import ExoclawBudget
    from budget_cpython.file_store import FileBudgetStore
    from budget_cpython.ledger import Ledger
    from budget_cpython.ledger.http import HttpLedger
    from budget_cpython.ledger.lease import LeasedLedger
    from budget_cpython.ledger.opening import open_async_ledger, open_ledger
    from budget_cpython.ledger.sqlite import SqliteLedger
    from budget_cpython.ledger.texts import parse_limits
    from budget_cpython.operative import Operative
    from budget_cpython.parallel import Event
    from budget_cpython.prices import ListedPrices
    from budget_cpython.run_config import Budget, WindDown
    from budget_cpython.running import Running
    from budget_cpython.trackers import DailyBudgetTracker, TurnBudgetTracker
    from budget_cpython.turn import (
        CitationAccumulator,
        ToolTraceEntry,
        TurnBudget,
        TurnRuntimeState,
    )
else:
    import budget_core

    _OWN = {
        "BoundedToolExecutor": "executor",
        "Budget": "run_config",
        "CitationAccumulator": "turn",
        "DailyBudgetConfig": "config",
        "DailyBudgetTracker": "trackers",
        "Deadline": "deadline",
        "DeadlineToken": "deadline",
        "Envelope": "envelope",
        "ExoclawBudget": "exoclaw",
        "Event": "parallel",
        "FileBudgetStore": "file_store",
        "HttpLedger": "ledger.http",
        "LeasedLedger": "ledger.lease",
        "Ledger": "ledger",
        "ListedPrices": "prices",
        "NoPlaceError": "executor",
        "Operative": "operative",
        "Running": "running",
        "SqliteLedger": "ledger.sqlite",
        "ToolOptions": "executor",
        "ToolOutcome": "executor",
        "ToolTimeoutError": "executor",
        "ToolTraceEntry": "turn",
        "TurnBudget": "turn",
        "TurnBudgetConfig": "config",
        "TurnBudgetTracker": "trackers",
        "TurnRuntimeState": "turn",
        "WALL": "clock",
        "WindDown": "run_config",
        "open_async_ledger": "ledger.opening",
        "open_ledger": "ledger.opening",
        "parse_limits": "ledger.texts",
        "tool_options": "executor",
        "tool_timeout": "executor",
        "with_timeout": "executor",
    }

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = budget_core
        if name in _OWN:
            home = __import__(f"{__name__}.{_OWN[name]}", fromlist=(name,))
        globals()[name] = value = getattr(home, name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "WALL",
    "AllOf",
    "Allowance",
    "AnyOf",
    "Balance",
    "BoundedToolExecutor",
    "Budget",
    "BudgetError",
    "BudgetExceededError",
    "BudgetTracker",
    "BudgetWrapper",
    "ChatClient",
    "ChatResponse",
    "CitationAccumulator",
    "CompositePolicy",
    "DailyBudgetConfig",
    "DailyBudgetTracker",
    "Deadline",
    "DeadlineExceeded",
    "DeadlineToken",
    "Enforcement",
    "Envelope",
    "Event",
    "ExoclawBudget",
    "FileBudgetStore",
    "Hold",
    "HoldSettledError",
    "HttpLedger",
    "InMemoryBudgetStore",
    "KeyReusedError",
    "LeasedLedger",
    "Ledger",
    "LedgerError",
    "LedgerFullError",
    "LedgerUnavailableError",
    "Limit",
    "ListedPrices",
    "MaxCost",
    "MaxIterations",
    "MaxTokens",
    "MaxToolCalls",
    "Middleware",
    "MonotonicClock",
    "NoPlaceError",
    "NoProgress",
    "Operative",
    "OperativeResult",
    "Price",
    "ProviderError",
    "Request",
    "RunStoppedError",
    "Running",
    "SqliteLedger",
    "StateCorruptError",
    "StopCondition",
    "StopReason",
    "StopRequested",
    "StoreError",
    "Timeout",
    "Tool",
    "ToolCall",
    "ToolOptions",
    "ToolOutcome",
    "ToolOutput",
    "ToolTimeoutError",
    "ToolTraceEntry",
    "TurnBudget",
    "TurnBudgetConfig",
    "TurnBudgetPolicy",
    "TurnBudgetTracker",
    "TurnRuntimeState",
    "UnknownAccountError",
    "UnknownHoldError",
    "WallClock",
    "WindDown",
    "estimate_tokens",
    "open_async_ledger",
    "open_ledger",
    "parse_limits",
    "thread_lock",
    "tls_context",
    "tool_options",
    "tool_timeout",
    "with_timeout",
]
