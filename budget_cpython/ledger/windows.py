"""Windows of named time zones, and weeks that begin on any day."""

from budget_core.ledger_window import Window, parse_window

__all__ = ["Window", "parse_window"]
