"""Budgets for LLM agents in the MicroPython subset: every rule lives here once.

A name is loaded from its module when it is first asked for, so a program pays for what it uses.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

PUBLIC = """\
chat ChatClient
clock WALL WallClock
composite CompositePolicy
config DailyBudgetConfig Enforcement TurnBudgetConfig
daily_tracker DailyBudgetTracker
deadline Deadline
deadline_token DeadlineToken
errors BudgetError DeadlineExceeded ProviderError StateCorruptError StoreError
file_store FileBudgetStore
http tls_context
lock thread_lock
monotonic MonotonicClock
policy TurnBudgetPolicy
provider ChatResponse ToolCall
store InMemoryBudgetStore
tracker BudgetTracker TurnBudgetTracker
turn_budget Allowance TurnBudget
turn_records CitationAccumulator ToolTraceEntry
turn_state TurnRuntimeState
wrapper BudgetWrapper"""


def __getattr__(name: str) -> "Any":
    public = PUBLIC
    while True:
        for line in public.split("\n"):
            home = line.split(" ")
            if name in home[1:]:
                return getattr(__import__("budget_core." + home[0], None, None, (name,)), name)
        if public is not PUBLIC:
            raise AttributeError(f"budget_core has no {name}")
        # A program without an operative does without the names that one needs.
        public = __import__("budget_core.names", None, None, ("PUBLIC",)).PUBLIC
