"""The rest of the public names: what an operative needs."""

PUBLIC = """\
budget Budget
envelope Envelope
estimate estimate_tokens
exoclaw ExoclawBudget
middleware Middleware Request
operative Operative
prices Price
progress NoProgress
result OperativeResult RunStoppedError
stop AllOf AnyOf MaxCost MaxIterations MaxTokens MaxToolCalls StopCondition
stop StopReason StopRequested Timeout
tool Tool ToolOutput
wind_down WindDown"""
