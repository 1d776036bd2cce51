"""The rest of the public names: those of ledgers and agents."""

PUBLIC = """\
ledger.limit Limit
chat.refusal ContextWindowExceededError
agent.budget Budget
agent.envelope Envelope
usage_estimate estimate_tokens
daily_allowance DailyAllowance DailyLimitError
agent.exoclaw ExoclawBudget
ledger.http_client HttpLedger
ledger.lease LeasedLedger
ledger.memory Ledger
ledger.errors BudgetExceededError HoldSettledError KeyReusedError LedgerError
ledger.errors LedgerFullError LedgerUnavailableError UnknownAccountError UnknownHoldError
ledger.records Balance Hold
agent.llm_call Request
agent.middleware Middleware
agent.operative Operative
money dollars
prices Price
agent.no_progress NoProgress
agent.result OperativeResult RunStoppedError
agent.stop StopReason StopRequested
agent.stop_condition AllOf AnyOf MaxCost MaxIterations MaxTokens MaxToolCalls StopCondition Timeout
agent.tool Tool ToolOutput
agent.wind_down WindDown"""
