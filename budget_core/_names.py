"""The public names, each line after its module."""

PUBLIC = """\
allowance Allowance
composite_policy CompositePolicy
config DailyBudgetConfig Enforcement TurnBudgetConfig
daily_allowance DailyAllowance DailyLimitError
daily_tracker DailyBudgetTracker
deadline Deadline
deadline_token DeadlineToken
errors BudgetError DeadlineExceeded ProviderError StateCorruptError StoreError
file_store FileBudgetStore
memory_store InMemoryBudgetStore
money dollars
monotonic MonotonicClock
policy TurnBudgetPolicy
prices Price
provider ChatResponse ToolCall
repeats RepeatedCallError
threads thread_lock
tracker BudgetTracker TurnBudgetTracker
turn_budget TurnBudget
turn_records CitationAccumulator ToolTraceEntry
turn_state TurnRuntimeState
usage_estimate estimate_tokens
wall_clock WALL WallClock
wrapper BudgetWrapper
agent.budget Budget
agent.envelope Envelope
agent.exoclaw ExoclawBudget
agent.llm_call Request
agent.middleware Middleware
agent.no_progress NoProgress
agent.operative Operative
agent.run OperativeResult RunStoppedError
agent.stop StopReason StopRequested
agent.stop_condition AllOf AnyOf MaxCost MaxIterations MaxTokens MaxToolCalls StopCondition Timeout
agent.tool Tool ToolOutput
agent.wind_down WindDown
chat.client ChatClient
chat.refusal ContextWindowExceededError
chat.tls tls_context
ledger.errors BudgetExceededError HoldSettledError KeyReusedError LedgerError
ledger.errors LedgerFullError LedgerUnavailableError UnknownAccountError UnknownHoldError
ledger.http_client HttpLedger
ledger.lease LeasedLedger
ledger.limit Limit
ledger.memory Ledger
ledger.records Balance Hold"""
