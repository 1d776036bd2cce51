"""The rest of the public names: what an operative needs."""

PUBLIC = """\
account Limit
budget Budget
envelope Envelope
estimate estimate_tokens
exoclaw ExoclawBudget
http_ledger HttpLedger
lease LeasedLedger
ledger Ledger
ledger_errors BudgetExceededError HoldSettledError KeyReusedError LedgerError
ledger_errors LedgerFullError LedgerUnavailableError UnknownAccountError UnknownHoldError
ledger_records Balance Hold
middleware Middleware Request
operative Operative
prices Price
progress NoProgress
result OperativeResult RunStoppedError
stop AllOf AnyOf MaxCost MaxIterations MaxTokens MaxToolCalls StopCondition
stop StopReason StopRequested Timeout
tool Tool ToolOutput
wind_down WindDown"""
