"""The public names, each line after its module."""

PUBLIC = """\
allowance Allowance
config DailyBudgetConfig Enforcement TurnBudgetConfig
daily_allowance DailyAllowance
daily_tracker DailyBudgetTracker
deadline Deadline
deadline_token DeadlineToken
errors BudgetError DeadlineExceeded ProviderError
file_store FileBudgetStore
memory_store InMemoryBudgetStore
money dollars
policy TurnBudgetPolicy
prices Price
provider ChatResponse ToolCall
tracker TurnBudgetTracker
turn_budget TurnBudget
turn_records CitationAccumulator ToolTraceEntry
turn_state TurnRuntimeState
wall_clock WALL
wrapper BudgetWrapper
agent.budget Budget
agent.envelope Envelope
agent.exoclaw ExoclawBudget
agent.middleware Middleware
agent.operative Operative
agent.run OperativeResult
agent.stop StopReason StopRequested
agent.tool Tool ToolOutput
agent.wind_down WindDown
chat.client ChatClient
ledger.errors BudgetExceededError
ledger.errors LedgerUnavailableError
ledger.http_client HttpLedger
ledger.lease LeasedLedger
ledger.limit Limit
ledger.memory Ledger"""
