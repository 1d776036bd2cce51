"""Budgets for LLM agents in the MicroPython subset: every rule lives here once.

A name is loaded from its module when it is first asked for, so a program pays for what it uses.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

PUBLIC = """\
budget Budget
chat ChatClient
composite CompositePolicy
config DailyBudgetConfig Enforcement TurnBudgetConfig
daily_tracker DailyBudgetTracker
deadline Deadline
deadline_token DeadlineToken
envelope Envelope
errors BudgetError DeadlineExceeded ProviderError StateCorruptError StoreError
estimate estimate_tokens
file_store FileBudgetStore
http tls_context
middleware Middleware Request
monotonic MonotonicClock
operative Operative
policy TurnBudgetPolicy
prices Price
provider ChatResponse ToolCall
result OperativeResult RunStoppedError
stop AllOf AnyOf MaxCost MaxIterations MaxTokens MaxToolCalls NoProgress StopCondition
stop StopReason StopRequested Timeout
store InMemoryBudgetStore
tool Tool ToolOutput
tracker BudgetTracker TurnBudgetTracker
turn_budget Allowance TurnBudget
turn_records CitationAccumulator ToolTraceEntry
turn_state TurnRuntimeState
wind_down WindDown
wrapper BudgetWrapper"""


def __getattr__(name: str) -> "Any":
    for line in PUBLIC.split("\n"):
        home = line.split(" ")
        if name in home[1:]:
            return getattr(__import__("budget_core." + home[0], None, None, (name,)), name)
    raise AttributeError(f"budget_core has no {name}")
