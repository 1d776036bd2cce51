"""Budgets for LLM agents on CPython: the core's public names, some of them upgraded.

Upgraded are the trackers (a lock), the configurations (frozen dataclasses) and the file store
(durable). A name is loaded from its module when it is first asked for.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.chat import ChatClient
    from budget_core.composite import CompositePolicy
    from budget_core.config import Enforcement
    from budget_core.errors import BudgetError, ProviderError, StateCorruptError, StoreError
    from budget_core.http import tls_context
    from budget_core.loop import Tool, TurnResult, run_turn
    from budget_core.policy import TurnBudgetPolicy
    from budget_core.provider import ChatResponse, ToolCall
    from budget_core.store import InMemoryBudgetStore
    from budget_core.tracker import BudgetTracker
    from budget_core.wrapper import BudgetWrapper
    from budget_cpython.config import DailyBudgetConfig, TurnBudgetConfig
    from budget_cpython.file_store import FileBudgetStore
    from budget_cpython.trackers import DailyBudgetTracker, TurnBudgetTracker
else:
    import budget_core

    _UPGRADED = {
        "DailyBudgetConfig": "config",
        "DailyBudgetTracker": "trackers",
        "FileBudgetStore": "file_store",
        "TurnBudgetConfig": "config",
        "TurnBudgetTracker": "trackers",
    }

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = budget_core
        if name in _UPGRADED:
            home = __import__(f"{__name__}.{_UPGRADED[name]}", fromlist=(name,))
        globals()[name] = value = getattr(home, name)
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "BudgetError",
    "BudgetTracker",
    "BudgetWrapper",
    "ChatClient",
    "ChatResponse",
    "CompositePolicy",
    "DailyBudgetConfig",
    "DailyBudgetTracker",
    "Enforcement",
    "FileBudgetStore",
    "InMemoryBudgetStore",
    "ProviderError",
    "StateCorruptError",
    "StoreError",
    "Tool",
    "ToolCall",
    "TurnBudgetConfig",
    "TurnBudgetPolicy",
    "TurnBudgetTracker",
    "TurnResult",
    "run_turn",
    "tls_context",
]
