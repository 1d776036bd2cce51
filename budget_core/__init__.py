"""Budgets for LLM agents in the MicroPython subset: every rule lives here once.

A name is loaded from its module when it is first asked for, so a program pays for what it uses.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PUBLIC = """\
allowance Allowance
chat.client ChatClient
chat.tls tls_context
composite_policy CompositePolicy
config DailyBudgetConfig Enforcement TurnBudgetConfig
daily_tracker DailyBudgetTracker
deadline Deadline
deadline_token DeadlineToken
errors BudgetError DeadlineExceeded ProviderError StateCorruptError StoreError
file_store FileBudgetStore
memory_store InMemoryBudgetStore
monotonic MonotonicClock
policy TurnBudgetPolicy
provider ChatResponse ToolCall
threads thread_lock
tracker BudgetTracker TurnBudgetTracker
turn_budget TurnBudget
turn_records CitationAccumulator ToolTraceEntry
turn_state TurnRuntimeState
wall_clock WALL WallClock
wrapper BudgetWrapper"""


def __getattr__(name: str) -> "Any":
    public = PUBLIC
    while True:
        for line in public.split("\n"):
            home = line.split(" ")
            if name in home[1:]:
                return getattr(_module(home[0]), name)
        if public is not PUBLIC:
            break
        # A program without ledgers and agents does without their names.
        public = _module("_names").PUBLIC
    try:
        return _module(name)  # MicroPython asks here before it looks for a module of that name
    except ImportError:
        raise AttributeError(f"budget_core has no {name}")


def _module(name: str) -> "Any":
    return __import__("budget_core." + name, None, None, (name,))
