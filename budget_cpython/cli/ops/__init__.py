"""The commands for operators: see a ledger, change it, and examine it."""
